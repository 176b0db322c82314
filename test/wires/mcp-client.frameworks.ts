import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { installPackages } from '../../scripts/install-packages.ts';

/* The platform as a client of MCP servers, with sign-in: the conformance suite drives `conformance-client.ts`. */

const FOLDER = join(import.meta.dirname, 'mcp-clients');
const REVISION = '2026-07-28';
const LIMIT = 600_000;

beforeAll(() => installPackages(FOLDER), LIMIT);

interface Check {
  readonly id: string;
  readonly status: string;
  readonly errorMessage?: string;
}

test(`the conformance suite for clients, ${REVISION}`, { timeout: LIMIT }, async () => {
  const home = mkdtempSync(join(tmpdir(), 'mcp-conformance-client-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const results = join(home, 'results');
  const args = [
    join(FOLDER, 'node_modules/.bin/conformance'),
    ...['client', '--command', `"${process.execPath}" "${join(import.meta.dirname, 'conformance-client.ts')}"`],
    ...['--requirements', REVISION, '-o', results],
    ...['--expected-failures', join(FOLDER, `expected-client-failures-${REVISION}.yaml`)],
    // All scenarios run at the same time, each with a process of its own.
    ...['--timeout', '300000'],
  ];
  const env = { ...process.env, NODE_COMPILE_CACHE: join(home, 'compiled') };
  const { code, output } = await new Promise<{ code: unknown; output: string }>((resolve) => {
    execFile(process.execPath, args, { env, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, output: stdout + stderr }),
    );
  });
  expect(code, `${output.split('=== SUITE SUMMARY ===')[1] ?? output.slice(-4000)}\n${failuresIn(results)}`).toBe(0);
});

/** Lists the checks that failed, with their scenarios. */
function failuresIn(results: string): string {
  if (!existsSync(results)) return '';
  const files = readdirSync(results, { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('checks.json'),
  );
  return files
    .flatMap((path) =>
      (JSON.parse(readFileSync(join(results, path), 'utf8')) as Check[])
        .filter(({ status }) => status === 'FAILURE')
        .map(({ id, errorMessage }) => `${path}: ${id} ${errorMessage ?? ''}`),
    )
    .join('\n');
}
