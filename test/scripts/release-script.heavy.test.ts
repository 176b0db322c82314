import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { VERSION } from '#core/base/version.ts';
import { temporaryFolder } from '#test/helpers/temporary-folder.ts';
import { versionsInPlaces } from '../../scripts/release-version.ts';
import { readWorkflows } from './workflows.ts';

const ROOT = join(import.meta.dirname, '../..');
const COPIED = [
  'CHANGELOG.md',
  '.gitignore',
  ...['install-packages', 'pack-assembly', 'release', 'release-version'].map((name) => `scripts/${name}.ts`),
];

function folder(): string {
  const path = temporaryFolder('release-test-');
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

function release(cwd: string, args: readonly string[], path = process.env.PATH) {
  const script = join(cwd, 'scripts/release.ts');
  return spawnSync(process.execPath, [script, ...args], { cwd, encoding: 'utf8', env: { ...process.env, PATH: path } });
}

/** A repository with the script, and with the files that have the version. */
function repository() {
  const root = folder();
  for (const file of new Set([...COPIED, ...versionsInPlaces().map((place) => place.file)])) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    cpSync(join(ROOT, file), join(root, file));
  }
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  const git = (...args: string[]) => {
    const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.org'];
    return execFileSync('git', [...identity, ...args], { cwd: root, encoding: 'utf8' });
  };
  const commit = () => {
    git('add', '--all');
    git('commit', '--quiet', '--message', 'x');
  };
  const changelog = (text: string) => {
    writeFileSync(join(root, 'CHANGELOG.md'), text);
    commit();
  };
  git('init', '--quiet');
  commit();
  return { root, git, changelog, read: (file: string) => readFileSync(join(root, file), 'utf8') };
}

test('version sets a newer version everywhere, once the changelog has it and the tree is clean', () => {
  const { root, git, changelog, read } = repository();
  const refusal = (version: string) => {
    const { status, stdout, stderr } = release(root, ['version', version]);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    return stderr;
  };
  const next = '10.2.0';
  for (const version of ['1.0', 'v10.0.0', '10.0.0-rc.1', '01.0.0'])
    expect(refusal(version)).toContain('not a version');
  for (const version of [VERSION, '0.0.9']) expect(refusal(version)).toContain(`not newer than ${VERSION}`);
  expect(refusal(next)).toContain('CHANGELOG.md has no heading "## 10.2.0"');
  changelog('# Changelog\n\n## 10.2.0 (2030-01-01)\n\n## 10.10.0\n\n## 10.9.0\n');
  writeFileSync(join(root, 'new'), '');
  expect(refusal(next)).toContain('uncommitted changes');
  rmSync(join(root, 'new'));
  expect(git('status', '--porcelain')).toBe('');

  const set = release(root, ['version', next]);
  expect(set).toMatchObject({ status: 0, stderr: '' });
  expect(set.stdout).toContain(`sdk/python/pyproject.toml: ${VERSION} -> ${next}\n`);
  const changed = git('diff', '--name-only').trim().split('\n');
  expect(new Set(changed)).toEqual(new Set(versionsInPlaces().map(({ file }) => file)));
  for (const file of changed) expect(read(file)).toContain(next);
  // Nothing but the version has changed.
  for (const file of changed) expect(read(file).replaceAll(next, VERSION)).toBe(readFileSync(join(ROOT, file), 'utf8'));

  git('commit', '--quiet', '--all', '--message', 'x');
  for (const version of ['10.10.0']) expect(release(root, ['version', version]).status).toBe(0);
  git('commit', '--quiet', '--all', '--message', 'x');
  expect(refusal('10.9.0')).toContain('not newer than 10.10.0');
});

test('a dry run packs for real, says what would be published, and leaves nothing behind', { timeout: 120_000 }, () => {
  const temporary = folder();
  const out = join(temporary, 'out');
  const folders = ['sdk/js', 'dist/release'];
  const state = () =>
    execFileSync('git', ['status', '--porcelain', '--ignored', ...folders], { cwd: ROOT, encoding: 'utf8' });
  const before = state();
  const args = [join(ROOT, 'scripts/release.ts'), 'pack', '--dry-run', '--json', '--only', 'sdk-js', '--out', out];
  const env = { ...process.env, TMPDIR: temporary, NODE_DISABLE_COMPILE_CACHE: '1' };
  const packed = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
  expect(packed.status, packed.stderr).toBe(0);
  const name = 'agent-platform-sdk';
  const file = `${name}-${VERSION}.tgz`;
  expect(JSON.parse(packed.stdout)).toEqual({
    version: VERSION,
    commit: expect.stringMatching(/^[0-9a-f]{40}(-dirty)?$/),
    artifacts: [
      {
        part: 'sdk-js',
        kind: 'npm',
        name,
        version: VERSION,
        file,
        bytes: expect.any(Number),
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        publish: `npm publish ${out}/${file} --provenance --access public`,
      },
    ],
    left_out: ['sdk-python', 'platform', 'construct', 'assembly', 'image'].map((part) => ({
      part,
      reason: 'not in --only',
    })),
  });
  expect(readdirSync(temporary)).toEqual([]);
  expect(state()).toBe(before);
});

/** Files of the package for JavaScript: each module has a declaration. */
const MODULES = [
  'agent-client',
  'durable',
  'environment',
  'errors',
  'events',
  'follow',
  'http',
  'index',
  'listing',
  'local',
  'message',
  'platform',
  'serve',
  'session',
  'storage',
  'task',
  'upload',
  'workspace',
];
const filesOfSdk = (): string[] =>
  [
    ...['LICENSE', 'README.md', 'agents.d.ts', 'package.json'],
    ...MODULES.flatMap((name) => [`${name}.js`, `types/${name}.d.ts`]),
  ].sort();

test('the packed SDK has its files, and the sums are those of the archives', { timeout: 120_000 }, () => {
  const out = join(folder(), 'out');
  const packed = release(ROOT, ['pack', '--out', out, '--only', 'sdk-js']);
  expect(packed.status, packed.stderr).toBe(0);
  const file = `agent-platform-sdk-${VERSION}.tgz`;
  const files = execFileSync('tar', ['-tzf', join(out, file)], { encoding: 'utf8' })
    .trim()
    .split('\n');
  expect(files.map((each) => each.replace('package/', '')).sort()).toEqual(filesOfSdk());
  const { artifacts } = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'));
  const content = readFileSync(join(out, file));
  const sha256 = createHash('sha256').update(content).digest('hex');
  expect(artifacts).toMatchObject([{ file, bytes: content.length, sha256 }]);
  expect(readFileSync(join(out, 'SHA256SUMS'), 'utf8')).toBe(`${sha256}  ${file}\n`);
});

test('pack says what is missing: places of another version, Python, a Docker engine', { timeout: 120_000 }, () => {
  const { root } = repository();
  const out = join(folder(), 'out');
  const bin = folder();
  const has = (name: string, script: string) => {
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  };
  has('python3', 'exit 1');
  has('uv', 'exit 1');
  has('docker', 'exit 1');
  const packed = (...args: string[]) => release(root, ['pack', '--out', out, ...args], `${bin}:${process.env.PATH}`);
  writeFileSync(join(root, 'LICENSE'), '');
  expect(packed('--only', 'sdk-python')).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('python3 -m pip install build'),
  });
  expect(packed('--only', 'image', '--require-image')).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('the image needs a Docker engine'),
  });
  // What failed has left nothing that the next one stumbles over.
  expect(existsSync(out)).toBe(false);
  expect(packed('--only', 'image')).toMatchObject({
    status: 0,
    stdout: expect.stringContaining('left out: image (no Docker engine answers "docker info")'),
  });
  has('docker', `if [ "$1" = image ]; then echo "${VERSION} 123 sha256:abc"; fi`);
  const { artifacts } = JSON.parse(packed('--only', 'image', '--image', 'registry.test/image', '--json').stdout);
  expect(artifacts).toMatchObject([
    { kind: 'image', version: VERSION, file: `registry.test/image:${VERSION}`, bytes: 123, sha256: 'abc' },
  ]);
  has('docker', 'if [ "$1" = image ]; then echo "0.0.1 123 sha256:abc"; fi');
  expect(packed('--only', 'image').stderr).toContain(`the label of agent-platform:${VERSION} has version 0.0.1`);

  writeFileSync(join(root, 'sdk/js/package.json'), '{\n  "version": "0.0.1"\n}\n');
  expect(packed('--only', 'image').stderr).toContain(`sdk/js/package.json: not version ${VERSION}`);
});

test('pack never empties a folder that is not of a release', () => {
  const { root } = repository();
  writeFileSync(join(root, 'LICENSE'), '');
  const { status, stderr } = release(root, ['pack', '--out', root, '--only', 'image']);
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: expect.stringContaining('other files than those of a release'),
  });
  expect(existsSync(join(root, 'package.json'))).toBe(true);
});

/** A repository with a packed release of three artifacts, and registries that write down what they get. */
function publishable() {
  const { root, git, changelog } = repository();
  changelog(`# Changelog\n\n## ${VERSION} (2030-01-01)\n`);
  const out = join(root, 'dist/release');
  mkdirSync(out, { recursive: true });
  const part = (kind: string, name: string, file: string) => {
    if (kind !== 'image') writeFileSync(join(out, file), name);
    return {
      part: name,
      kind,
      name,
      version: VERSION,
      file,
      bytes: 1,
      sha256: createHash('sha256').update(name).digest('hex'),
    };
  };
  const manifest = {
    version: VERSION,
    commit: git('rev-parse', 'HEAD').trim(),
    artifacts: [
      part('npm', 'first', 'first.tgz'),
      part('python', 'second', 'second.whl'),
      part('npm', 'third', 'third.tgz'),
      part('image', 'registry.test/image', `registry.test/image:${VERSION}`),
      // A job of the workflow attaches it.
      part('zip', 'assembly', 'assembly.zip'),
    ],
    left_out: [],
  };
  const write = (changes: object = {}) =>
    writeFileSync(join(out, 'manifest.json'), JSON.stringify({ ...manifest, ...changes }));
  write();
  const registry = folder();
  const log = join(registry, 'log');
  writeFileSync(log, '');
  const program = (name: string, script: string) => {
    writeFileSync(join(registry, name), `#!/bin/sh\nset -e\ncd ${registry}\n${script}\n`);
    chmodSync(join(registry, name), 0o755);
  };
  // The registries: a file for each artifact that they have.
  program(
    'npm',
    `if [ "$1" = view ]; then
  name="\${2%@*}"
  [ -f broken ] && { echo 'npm error code E500' >&2; exit 1; }
  [ -f "$name" ] || { echo 'npm error code E404' >&2; exit 1; }
  cat "$name"; exit 0
fi
echo "npm $*" >> log
name="$(basename "$2" .tgz)"
[ -f "fails-$name" ] && exit 1
'${process.execPath}' -p "'sha512-' + require('node:crypto').hash('sha512', '$name', 'base64')" > "$name"`,
  );
  program('twine', 'if [ "$1" != --version ]; then echo "twine $*" >> log; fi');
  program('docker', 'if [ "$1" = manifest ]; then [ -f image ]; else echo "docker $*" >> log; touch image; fi');
  const publish = (...args: string[]) => release(root, ['publish', ...args], `${registry}:${process.env.PATH}`);
  return {
    root,
    registry,
    program,
    publish,
    write,
    manifest,
    changelog,
    out,
    has: (file: string, text = '') => writeFileSync(join(registry, file), text),
    lacks: (file: string) => rmSync(join(registry, file)),
    taken: () => {
      const lines = readFileSync(log, 'utf8').split('\n').filter(Boolean);
      writeFileSync(log, '');
      return lines;
    },
  };
}

const COMMANDS = [
  'npm publish dist/release/first.tgz --provenance --access public',
  'twine upload --skip-existing dist/release/second.whl',
  'npm publish dist/release/third.tgz --provenance --access public',
  `docker push registry.test/image:${VERSION}`,
];

test('publish publishes nothing without --yes, and says what it would run', () => {
  const { publish, taken } = publishable();
  const { status, stderr } = publish();
  expect(status).toBe(1);
  expect(stderr).toContain(COMMANDS.map((command) => `  ${command}\n`).join(''));
  expect(taken()).toEqual([]);
});

test('publish stops at the first failure with what is left, and the next run skips what is there', () => {
  const { publish, taken, has, lacks } = publishable();
  has('fails-third');
  const failed = publish('--yes');
  expect(failed.status).toBe(1);
  expect(failed.stderr).toContain(`Not published: third.tgz, registry.test/image:${VERSION}.`);
  expect(taken()).toEqual(COMMANDS.slice(0, 3));

  lacks('fails-third');
  const repeated = publish('--yes');
  expect(repeated).toMatchObject({ status: 0, stderr: '' });
  expect(repeated.stdout).toContain('first.tgz: published before\n');
  expect(taken()).toEqual(COMMANDS.slice(1));

  const third = publish('--yes', '--no-provenance');
  expect(third.status).toBe(0);
  expect(taken()).toEqual([COMMANDS[1]]);
});

test('publish stops if a registry does not answer, or has other content under the version', () => {
  const { publish, taken, has, lacks } = publishable();
  has('broken');
  expect(publish('--yes').stderr).toContain('E500');
  lacks('broken');
  has('first', 'sha512-other');
  const other = publish('--yes');
  expect(other.stderr).toContain(`the registry has another first@${VERSION}: make a new version`);
  expect(other.stderr).toContain('Not published: first.tgz, second.whl');
  expect(taken()).toEqual([]);
});

test('publish refuses what is not the packed release of this commit', () => {
  const { publish, taken, write, manifest, changelog, out } = publishable();
  const refusal = () => {
    const { status, stderr } = publish('--yes');
    expect(status).toBe(1);
    return stderr;
  };
  write({ commit: `${manifest.commit}-dirty` });
  expect(refusal()).toContain('pack it again');
  write({ artifacts: [{ ...manifest.artifacts[3], file: `image:${VERSION}` }] });
  expect(refusal()).toContain('names no registry: pack with --image');
  write();
  writeFileSync(join(out, 'third.tgz'), 'changed');
  expect(refusal()).toContain('third.tgz has changed since it was packed');
  changelog(`# Changelog\n\n## ${VERSION} (not released yet)\n`);
  expect(refusal()).toContain('pack it again');
  const head = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: out, encoding: 'utf8' }).trim();
  write({ commit: head });
  expect(refusal()).toContain('is not released yet');
  expect(taken()).toEqual([]);
});

test('the workflow of releases runs as written, on a release that is packed', () => {
  const { root, registry, program, taken } = publishable();
  const [{ jobs }] = readWorkflows() as [ReturnType<typeof readWorkflows>[number]];
  const tools = join(registry, 'tools');
  mkdirSync(tools);
  const tool = (name: string, script: string) => {
    writeFileSync(join(tools, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(tools, name), 0o755);
  };
  // `npm run release` is the real script; what would download or build is written down.
  tool(
    'npm',
    `case "$1 $2 $4" in
  "run release pack") echo "$*" >> '${registry}/log' ;;
  "run release publish") shift 3; exec '${process.execPath}' scripts/release.ts "$@" ;;
  "ci "*) echo "npm $*" >> '${registry}/log' ;;
  *) exec '${registry}/npm' "$@" ;;
esac`,
  );
  tool('pipx', `echo "pipx $*" >> '${registry}/log'`);
  program(
    'docker',
    `case "$1" in
  manifest) [ -f image ] ;;
  image) echo 'ghcr.io/acme/agents@sha256:abc' ;;
  login) echo "docker $* $(cat)" >> log ;;
  *) echo "docker $*" >> log; [ "$1" != push ] || touch image ;;
esac`,
  );
  const output = join(registry, 'output');
  writeFileSync(output, '');
  const runSteps = (job: string, ref: string) => {
    for (const { run } of jobs[job]!.steps) {
      if (run === undefined) continue;
      // The options with which GitHub runs a step.
      const { status, stderr } = spawnSync('bash', ['--noprofile', '--norc', '-eo', 'pipefail', '-c', run], {
        cwd: root,
        encoding: 'utf8',
        env: {
          PATH: `${tools}:${registry}:${dirname(process.execPath)}:${process.env.PATH}`,
          GITHUB_ACTOR: 'ann',
          GITHUB_OUTPUT: output,
          GITHUB_REF_NAME: ref,
          GITHUB_REPOSITORY: 'Acme/Agents',
          TOKEN: 'made-up-token',
        },
      });
      if (status !== 0) return `${run}: ${stderr}`;
    }
    return undefined;
  };

  expect(runSteps('pack', 'v0.0.1')).toContain('test "$GITHUB_REF_NAME" =');
  expect(taken()).toEqual([]);
  const image = `ghcr.io/acme/agents:${VERSION}`;
  expect(runSteps('pack', `v${VERSION}`)).toBeUndefined();
  expect(taken()).toEqual([
    'npm ci',
    'pipx install uv==0.13.9',
    'run release -- pack --image ghcr.io/acme/agents --require-image',
    `docker save --output dist/release/image.tar ${image}`,
  ]);
  expect(runSteps('publish', `v${VERSION}`)).toBeUndefined();
  expect(taken()).toEqual([
    'npm ci --ignore-scripts',
    'pipx install uv==0.13.9',
    'docker load --input dist/release/image.tar',
    'docker login ghcr.io --username ann --password-stdin made-up-token',
    ...COMMANDS,
  ]);
  expect(readFileSync(output, 'utf8')).toBe('name=ghcr.io/acme/agents\ndigest=sha256:abc\n');
});
