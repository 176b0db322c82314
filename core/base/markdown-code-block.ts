/**
 * A Markdown code block. Its fence is longer than any run of backticks in `text`, which therefore cannot end it
 * (CommonMark 0.31.2, section 4.5).
 */
export function markdownCodeBlock(language: string, text: string): string {
  const runs = text.match(/`{3,}/g) ?? [];
  const fence = '`'.repeat(runs.reduce((longest, run) => Math.max(longest, run.length + 1), 3));
  return `${fence}${language}\n${text}\n${fence}`;
}
