"""What people look at: coloured text, tables and progress in the terminal."""
