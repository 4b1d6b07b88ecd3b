"""Bad input, kills and full disks: ``make trust`` runs many cases, ``make test`` a few; see docs/trust.md."""
