"""What Rejoinder costs and how fast it is, beside what one would pick instead. ``make bench`` runs everything."""
