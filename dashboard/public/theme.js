// Before the first paint, and a file of its own: the page's policy allows no script in its text.
try {
  const theme = localStorage.getItem('theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Storage is off: the system's theme stays.
}
