import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Sandbox } from '#core/ports/sandbox.ts';
import { ran, specOf, tarOf } from '#test/conformance/sandbox.ts';
import { zip } from '#test/helpers/zip.ts';
import { FolderBlobs } from '../files/folder-blobs.ts';
import { createLocalSandbox } from './local-sandbox.ts';

const root = mkdtempSync(join(tmpdir(), 'unsandboxed-test-'));
let sandbox: Sandbox;

beforeAll(async () => {
  const blobs = new FolderBlobs(join(root, 'blobs'));
  await blobs.put('bundles/a.zip', zip([{ name: 'main.py', content: 'import here; print(here.text)' }]));
  await blobs.put('layers/a.tar.gz', tarOf({ 'python/here.py': 'text = "from the layer"' }));
  sandbox = await createLocalSandbox({ cacheFolder: join(root, 'cache'), blobs, kind: 'unsandboxed' });
});
afterAll(async () => {
  await sandbox.close();
  rmSync(root, { recursive: true });
});

test('runs commands in a folder of their own, which is removed with the session', async () => {
  expect((await sandbox.status()).kind).toBe('unsandboxed');
  const session = await sandbox.open(specOf({ bundle: 'bundles/a.zip', layer: 'layers/a.tar.gz', env: { A: '1' } }));
  const { out, exit } = await ran(session, 'python3 main.py; echo $A; cat; pwd; exit 3', {
    stdin: Buffer.from('in\n'),
  });
  const [layer, variable, input, folder] = out.split('\n');
  expect([layer, variable, input]).toEqual(['from the layer', '1', 'in']);
  expect(exit).toMatchObject({ reason: 'exited', exitCode: 3 });
  await session.close();
  expect(existsSync(folder!)).toBe(false);
});

test("imports the platform's packages, with a layer and without", async () => {
  for (const layer of ['layers/a.tar.gz', undefined]) {
    const session = await sandbox.open(specOf({ bundle: 'bundles/a.zip', layer }));
    const command = `python3 -c 'import agent_platform as a; print(a.AgentClient.__name__)'
      node --input-type=module -e 'import { AgentClient as A } from "agent-platform-sdk"; console.log(A.name)'`;
    expect((await ran(session, command)).out).toBe('AgentClient\nAgentClient\n');
    await session.close();
  }
});

test('limits time and output', async () => {
  const session = await sandbox.open(specOf());
  const ranFor = (timeoutMs: number) =>
    ran(session, 'trap "" TERM; echo ready; while :; do sleep 0.1; done', { timeoutMs });
  let late = await ranFor(100);
  // On a busy machine the shell may be killed before it installs its signal handler.
  for (let timeoutMs = 200; !late.out && timeoutMs < 10_000; timeoutMs *= 2) late = await ranFor(timeoutMs);
  expect(late).toMatchObject({ out: 'ready\n', exit: { reason: 'timeout', exitCode: 137 } });
  expect((await ran(session, 'yes', { maxOutputBytes: 100 })).exit.reason).toBe('output_limit');
  const aborted = await ran(session, 'sleep 100', { signal: AbortSignal.abort() });
  expect(aborted.exit.reason).toBe('aborted');
});

test('any amount of stderr ends no command; its beginning and its end are kept', async () => {
  const session = await sandbox.open(specOf());
  const program = `i=0; while [ $i -lt 3 ]; do i=$((i+1)); yes "line $i" | head -c 5000000; echo "end $i"; done >&2; echo done`;
  const { out, err, exit } = await ran(session, program, { maxOutputBytes: 1000 });
  expect([out, exit.reason, exit.exitCode]).toEqual(['done\n', 'exited', 0]);
  const [head = '', tail = ''] = err.split(/\n\[\.\.\. \d+ bytes left out \.\.\.\]\n/);
  expect([head.startsWith('line 1\nline 1\n'), head.endsWith('line 1\n'), tail.endsWith('end 3\n')]).toEqual(
    Array(3).fill(true),
  );
  expect([2 ** 20 - head.length, 2 ** 16 - tail.length].every((left) => Math.abs(left) < 10)).toBe(true);
  const leftOut = Number(/(\d+) bytes left out/.exec(err)![1]);
  expect(head.length + leftOut + tail.length).toBe(3 * (5_000_000 + 'end 1\n'.length));
});

test('reads, writes and lists files like a sandbox', async () => {
  const session = await sandbox.open(specOf());
  await session.writeFile('/tmp/uploads/a.txt', Buffer.from('abc'));
  await session.writeFile('notes/b.txt', Buffer.from('de'));
  expect(Buffer.concat(await Array.fromAsync(await session.readFile('/tmp/uploads/a.txt'))).toString()).toBe('abc');
  expect(await session.listFiles('.', { recursive: true })).toEqual([
    { path: 'notes', isFolder: true, sizeBytes: 0 },
    { path: 'notes/b.txt', isFolder: false, sizeBytes: 2 },
  ]);
  await expect(session.readFile('nothing')).rejects.toMatchObject({ code: 'SANDBOX_FILE' });
});
