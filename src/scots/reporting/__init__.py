"""Reports: what is measured about data and results, as figures, rows and documents."""
