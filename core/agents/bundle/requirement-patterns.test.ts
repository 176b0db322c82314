import { expect, test } from 'vitest';
import { zip } from '#test/helpers/zip.ts';
import { inspectBundle } from './bundle.ts';
import { planInstall } from './install-plan.ts';

/** Milliseconds that the plan of a bundle with this file takes. */
async function planned(name: string, content: string): Promise<number> {
  const report = await inspectBundle(zip([{ name, content }]));
  const startedAt = performance.now();
  await planInstall({}, { workspaceId: 'w', definition: {} as never }, report);
  return performance.now() - startedAt;
}

/** Many, so that a quadratic pattern takes ten seconds. */
const N = 100_000;

// Each took seconds while a pattern could try the same spaces from every line. Reading the text takes about a millisecond.
test.each<[string, string, string]>([
  ['empty lines', 'requirements.txt', `x${'\n'.repeat(N)}`],
  ['carriage returns', 'requirements.txt', `x${'\r'.repeat(N)}`],
  ['line separators', 'requirements.txt', `x${'\u2028'.repeat(N)}`],
  ['spaces', 'requirements.txt', `x${' '.repeat(N)}y`],
  ['lines of spaces', 'requirements.txt', `x${' \n\t\n'.repeat(N / 4)}`],
  ['spaces after the platform package', 'requirements.txt', `agent-platform-sdk${' '.repeat(N)}x`],
  ['spaces after its extras', 'requirements.txt', `agent-platform-sdk [x]${' '.repeat(N)}x`],
  ['dashes in its name', 'requirements.txt', `agent${'-'.repeat(N)}x`],
  ['backslashes after it', 'requirements.txt', `agent-platform-sdk ${'\\'.repeat(N)}`],
  ['at signs', 'requirements.txt', `x ${'@ '.repeat(N)}`],
  ['spaces in package.json', 'package.json', `{"dependencies":{"a":"1"},"x":"${'\\"workspaces\\"  '.repeat(N / 20)}"}`],
])('a plan of %s takes time in proportion to its size', async (_, name, content) => {
  expect(await planned(name, content)).toBeLessThan(500);
});
