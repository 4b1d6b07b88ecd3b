"""The search for settings: what is searched, by what it is judged, the study, and the command."""
