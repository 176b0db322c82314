import { test } from 'vitest';
import { zip } from '#test/helpers/zip.ts';
import { inspectBundle } from './bundle.ts';
import { planInstall } from './install-plan.ts';

/** Plans the installation of a bundle with this file. */
async function plan(name: string, content: string): Promise<void> {
  const report = await inspectBundle(zip([{ name, content }]));
  await planInstall({}, { workspaceId: 'w', definition: {} as never }, report, null);
}

/** Large enough that a quadratic pattern would take many minutes. */
const N = 1_000_000;

// A tenth of each took seconds while a pattern could rescan the same spaces from every line.
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
  await plan(name, content);
});
