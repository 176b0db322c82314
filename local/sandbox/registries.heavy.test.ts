import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ran, specOf } from '#test/conformance/sandbox.ts';
import { FolderBlobs } from '../files/folder-blobs.ts';
import { createLocalSandbox } from './local-sandbox.ts';

const KINDS = ['bubblewrap', 'unshare'] as const;

function registryProblem(): string | undefined {
  const answer = spawnSync('npm', ['view', 'is-number', 'name', '--fetch-timeout=5000', '--fetch-retries=0'], {
    encoding: 'utf8',
  });
  return answer.stdout?.trim() === 'is-number' ? undefined : 'no npm registry answers';
}
const noRegistry = registryProblem();

test.for(KINDS)('%s: pip and npm install packages in an installation', { timeout: 120_000 }, async (kind, { skip }) => {
  skip(noRegistry !== undefined, noRegistry);
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-registries-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  // This host's trusted certificates. Registries may be at any address.
  const certificates = '/etc/ssl/certs/ca-certificates.crt';
  const registries = {
    env: { PIP_CERT: certificates, NODE_EXTRA_CA_CERTS: certificates },
    allowHosts: ['*.org:443', '*.com:443'],
  };
  const blobs = new FolderBlobs(join(folder, 'blobs'));
  const sandbox = await createLocalSandbox({
    cacheFolder: join(folder, 'cache'),
    blobs,
    kind,
    prestart: 0,
    registries,
  });
  onTestFinished(() => sandbox.close());
  const { problem } = await sandbox.status();
  skip(problem !== undefined, problem);

  const session = await sandbox.open(
    specOf({
      egress: 'open',
      purpose: 'install',
      limits: { ...specOf().limits, memoryBytes: 1024 ** 3, diskBytes: 256 * 1024 ** 2, processes: 256 },
    }),
  );
  const pip = await ran(session, 'pip install --target /home/user/layer six && ls layer', { timeoutMs: 60_000 });
  expect(pip, pip.err).toMatchObject({ exit: { exitCode: 0 }, out: expect.stringContaining('six.py') });
  const npm = await ran(session, 'npm install --no-audit is-number && ls node_modules', { timeoutMs: 60_000 });
  expect(npm, npm.err).toMatchObject({ exit: { exitCode: 0 }, out: expect.stringContaining('is-number') });
});
