import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { specOf } from '#test/conformance/sandbox.ts';

const root = mkdtempSync(join(tmpdir(), 'sandbox-test-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('where no sandbox works', () => {
  test('the platform starts, and the status says what to install', () => {
    const program = `
      import { createLocalSandbox } from ${JSON.stringify(fileURLToPath(new URL('local-sandbox.ts', import.meta.url)))};
      const sandbox = await createLocalSandbox({ cacheFolder: ${JSON.stringify(join(root, 'none'))}, blobs: {} });
      const { code, message } = await sandbox.open(${JSON.stringify(specOf())}).catch((error) => error);
      console.log(JSON.stringify([await sandbox.status(), code, message]));
      await sandbox.close();
    `;
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
      env: { PATH: '/nonexistent' },
    });
    expect(stderr).toBe('');
    const [status, code, message] = JSON.parse(stdout);
    expect(status).toEqual({ kind: 'none', problem: message, interpreters: { node: process.versions.node } });
    expect(code).toBe('SANDBOX_UNAVAILABLE');
    expect(message).toMatch(/perl was not found.*Install bubblewrap/);
  });
});
