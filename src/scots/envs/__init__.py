"""What can be stepped: maze geometry, environments, many of them side by side. Simulators are imported only here."""
