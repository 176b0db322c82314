import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { inspectBundle } from '#core/manifest/bundle/bundle.ts';
import { CHANGED_FOLDER, PACK_LAYER, planInstall } from '#core/manifest/bundle/install-plan.ts';
import { ran, specOf } from '#test/conformance/sandbox.ts';
import { zip } from '#test/helpers/zip.ts';
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

/** Opens a sandbox for an installation. `problem` says why there is none. */
async function setUp(kind: (typeof KINDS)[number], files?: Readonly<Record<string, string>>) {
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
  if (problem !== undefined) return { problem };
  const bundle = files && 'bundles/files.zip';
  if (files) await blobs.put(bundle!, zip(Object.entries(files).map(([name, content]) => ({ name, content }))));
  const limits = { ...specOf().limits, memoryBytes: 1024 ** 3, diskBytes: 256 * 1024 ** 2, processes: 256 };
  return { session: await sandbox.open(specOf({ egress: 'open', purpose: 'install', bundle, limits })) };
}

test.for(KINDS)('%s: pip and npm install packages in an installation', { timeout: 120_000 }, async (kind, { skip }) => {
  skip(noRegistry !== undefined, noRegistry);
  const { session = skip('no sandbox works here') } = await setUp(kind);
  const pip = await ran(session, 'pip install --target /home/user/layer six && ls layer', { timeoutMs: 60_000 });
  expect(pip, pip.err).toMatchObject({ exit: { exitCode: 0 }, out: expect.stringContaining('six.py') });
  const npm = await ran(session, 'npm install --no-audit is-number && ls node_modules', { timeoutMs: 60_000 });
  expect(npm, npm.err).toMatchObject({ exit: { exitCode: 0 }, out: expect.stringContaining('is-number') });
});

const PNPM_LOCK = `lockfileVersion: '9.0'
importers:
  .:
    dependencies:
      is-number:
        specifier: ^7.0.0
        version: 7.0.0
packages:
  is-number@7.0.0:
    resolution: {integrity: sha512-41Cifkg6e8TylSpdtTpeLVMqvSBEVzTttHvERD741+pnZ8ANv0004MRL43QKPDlK9cGvNp6NZWZUBlbGXYxxng==}
    engines: {node: '>=0.12.0'}
snapshots:
  is-number@7.0.0: {}
`;
const YARN_LOCK = `# yarn lockfile v1


is-number@^6.0.0:
  version "6.0.0"
  resolved "https://registry.yarnpkg.com/is-number/-/is-number-6.0.0.tgz#e6d15ad31fc262887cccf217ae5f9316f81b1995"
  integrity sha512-Wu1VHeILBK8KAWJUAiSZQX94GmOE45Rg6/538fKwiloUu21KncEkYGPqob2oSZ5mUT73vLGrHQjKw3KMPwfDzg==
`;
const POETRY_LOCK = '[[package]]\nname = "six"\nversion = "1.15.0"\n';

test.for([
  ['poetry.lock', { 'pyproject.toml': '[tool.poetry.dependencies]\nsix = "^1.10"', 'poetry.lock': POETRY_LOCK }],
  ['pnpm-lock.yaml', { 'package.json': '{"dependencies":{"is-number":"^7.0.0"}}', 'pnpm-lock.yaml': PNPM_LOCK }],
  ['yarn.lock', { 'package.json': '{"dependencies":{"is-number":"^6.0.0"}}', 'yarn.lock': YARN_LOCK }],
] as const)('%s decides what is installed', { timeout: 240_000 }, async ([file, files], { skip }) => {
  skip(noRegistry !== undefined, noRegistry);
  const { session = skip('no sandbox works here') } = await setUp('unshare', files);
  const bundle = await inspectBundle(zip(Object.entries(files).map(([name, content]) => ({ name, content }))));
  const plan = await planInstall({}, { workspaceId: 'w', definition: {} as never }, bundle, null);
  for (const [name, text] of Object.entries(plan!.changed)) {
    await session.writeFile(`${CHANGED_FOLDER}/${name}`, Buffer.from(text));
  }
  for (const { command } of plan!.steps) {
    const { exit, out, err } = await ran(session, command, { timeoutMs: 120_000 });
    expect(exit, `${command}\n${out}\n${err}`).toMatchObject({ exitCode: 0 });
  }
  const versions =
    'ls -d venv/lib/python3*/site-packages/six-*.dist-info; grep \'"version"\' node_modules/is-number/package.json';
  const { out } = await ran(session, `cd /home/user/layer && ${versions}`);
  const expected = { 'poetry.lock': 'six-1.15.0.dist-info', 'pnpm-lock.yaml': '"7.0.0"', 'yarn.lock': '"6.0.0"' };
  expect(out).toContain(expected[file]);
  expect((await ran(session, PACK_LAYER, { maxOutputBytes: 64 * 1024 ** 2 })).exit.exitCode).toBe(0);
});
