/**
 * `npm run release -- version | pack | publish`: sets the version everywhere, packs the artifacts, and publishes them.
 * docs/release.md describes the steps. Only `publish --yes` changes anything outside this machine.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { Command, Option } from '@commander-js/extra-typings';
import { CDK, linkPackages } from './install-packages.ts';
import { packAssembly } from './pack-assembly.ts';
import { changelogHeading, currentVersion, isDirty, read, setVersion, versionsInPlaces } from './release-version.ts';

const ROOT = join(import.meta.dirname, '..');
/** Published packages in order: dependencies come first. */
const PACKAGES = {
  'sdk-js': { kind: 'npm', folder: 'sdk/js' },
  'sdk-python': { kind: 'python', folder: 'sdk/python' },
  platform: { kind: 'npm', folder: 'cli/package' },
  construct: { kind: 'npm', folder: 'lib/package' },
  assembly: { kind: 'zip', folder: 'lib/package' },
  image: { kind: 'image', folder: '.' },
} as const;
type Name = keyof typeof PACKAGES;
const NAMES = Object.keys(PACKAGES) as Name[];

interface Artifact {
  readonly part: Name;
  readonly kind: 'npm' | 'python' | 'zip' | 'image';
  readonly name: string;
  readonly version: string;
  /** File name in the release folder, or reference of the image. */
  readonly file: string;
  readonly bytes: number;
  /** For an image, its ID. */
  readonly sha256: string;
}

/** Content of `manifest.json` in a release folder. */
interface Release {
  readonly version: string;
  /** Ends in `-dirty` if the tree had uncommitted changes: such a release cannot be published. */
  readonly commit: string;
  readonly artifacts: readonly Artifact[];
  readonly left_out: readonly { readonly part: Name; readonly reason: string }[];
}

const sha256Of = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');

const attempt = (command: string, args: readonly string[], cwd = ROOT, env = process.env) =>
  spawnSync(command, args, { cwd, env, encoding: 'utf8', maxBuffer: 64 * 1024 ** 2 });

function run(command: string, args: readonly string[], cwd = ROOT, env = process.env): string {
  const { status, error, stdout, stderr } = attempt(command, args, cwd, env);
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed:\n${error ?? `${stdout}${stderr}`.trim()}`);
  return stdout;
}

const works = (command: string, ...args: string[]): boolean => attempt(command, args).status === 0;
/**
 * Copies the files of the repository, so that builds leave nothing in it and do not collide with other builds there.
 */
function copyRepository(folder: string): void {
  const files = run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard']).split('\0');
  for (const file of files) {
    // Files deleted but not committed are listed, too.
    if (file === '' || !lstatSync(join(ROOT, file), { throwIfNoEntry: false })) continue;
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(ROOT, file), join(folder, file), { verbatimSymlinks: true });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  if (existsSync(join(CDK, 'node_modules'))) {
    symlinkSync(join(CDK, 'node_modules'), join(folder, relative(ROOT, CDK), 'node_modules'));
  }
  for (const { kind, folder: part } of Object.values(PACKAGES)) {
    if (kind !== 'image') cpSync(join(ROOT, 'LICENSE'), join(folder, part, 'LICENSE'));
  }
}

/**
 * Describes a packed file. Throws if it lacks one of the `expected` files, whose paths are relative to its top folder.
 */
function checkedArtifact(part: Name, name: string, path: string, expected: readonly string[] = []): Artifact {
  const content = readFileSync(path);
  if (expected.length > 0) {
    const files = run('tar', ['-tzf', path]).split('\n');
    const missing = expected.filter((file) => !files.some((each) => each.replace(/^[^/]+\//, '') === file));
    if (missing.length > 0) throw new Error(`${basename(path)} lacks ${missing.join(', ')}`);
  }
  const { kind } = PACKAGES[part];
  const version = currentVersion();
  return { part, kind, name, version, file: basename(path), bytes: content.length, sha256: sha256Of(content) };
}

function packNpm(part: Name, copy: string, out: string): Artifact {
  const { folder } = PACKAGES[part];
  const { name, bin = {}, main, types, exports = {} } = JSON.parse(read(join(folder, 'package.json')));
  run('npm', ['pack', `./${folder}`, '--pack-destination', out], copy);
  const entries: string[] = [...Object.values(bin), main, types, ...Object.values(exports['.'] ?? {})];
  const expected = ['package.json', 'LICENSE', ...entries.filter(Boolean).map((file) => file.replace(/^\.\//, ''))];
  return checkedArtifact(part, name, join(out, `${name}-${currentVersion()}.tgz`), expected);
}

function packPython(part: Name, copy: string, out: string): Artifact[] {
  const sources = join(copy, PACKAGES[part].folder);
  // Makes the wheel depend only on the commit.
  const env = { ...process.env, SOURCE_DATE_EPOCH: run('git', ['log', '-1', '--format=%ct']).trim() };
  if (works('python3', '-c', 'import build.__main__')) {
    run('python3', ['-m', 'build', '--outdir', out, sources], copy, env);
  } else if (works('uv', '--version')) {
    run('uv', ['build', '--out-dir', out, sources], copy, env);
  } else {
    const fix = 'python3 -m pip install build';
    throw new Error(`the Python SDK needs uv or the Python package "build": ${fix}; or leave it out with --only`);
  }
  const name = 'agent-platform-sdk';
  const stem = join(out, `agent_platform_sdk-${currentVersion()}`);
  const inSources = ['PKG-INFO', 'LICENSE', 'pyproject.toml', 'agent_platform/__init__.py', 'agent_platform/py.typed'];
  return [
    checkedArtifact(part, name, `${stem}-py3-none-any.whl`),
    checkedArtifact(part, name, `${stem}.tar.gz`, inSources),
  ];
}

/** Packs the cloud assembly that the construct's package synthesises, for teams that deploy without TypeScript. */
function packCloudAssembly(part: Name, copy: string, out: string): Artifact {
  const name = 'agent-platform-assembly';
  const top = `${name}-${currentVersion()}`;
  const synth = join(copy, 'lib/package/dist/synth.js');
  // The construct's package has built it.
  if (!existsSync(synth)) run(process.execPath, ['scripts/build-construct.ts'], copy);
  packAssembly(synth, join(copy, top), join(out, `${top}.zip`));
  return checkedArtifact(part, name, join(out, `${top}.zip`));
}

function buildImage(part: Name, copy: string, image: string): Artifact {
  const version = currentVersion();
  const file = `${image}:${version}`;
  run('docker', ['build', '--tag', file, copy]);
  const format = '{{index .Config.Labels "org.opencontainers.image.version"}} {{.Size}} {{.Id}}';
  const [label, bytes, id = ''] = run('docker', ['image', 'inspect', '--format', format, file]).trim().split(' ');
  if (label !== version) throw new Error(`the label of ${file} has version ${label}`);
  return { part, kind: 'image', name: image, version, file, bytes: Number(bytes), sha256: id.replace('sha256:', '') };
}

interface PackOptions {
  readonly out: string;
  readonly image: string;
  readonly requireImage?: true;
  readonly only?: readonly Name[];
  readonly dryRun?: true;
  readonly json?: true;
}

/** Builds, packs and checks the artifacts of the release. Moves them to the folder `out` only if all checks pass. */
function pack(options: PackOptions): Release {
  const { image, requireImage, only = NAMES, dryRun } = options;
  const out = resolve(options.out);
  const version = currentVersion();
  const others = versionsInPlaces().filter((place) => place.version !== version);
  if (others.length > 0) throw new Error(`${others.map(({ file }) => file).join(', ')}: not version ${version}`);
  if (existsSync(out) && readdirSync(out).length > 0 && !existsSync(join(out, 'manifest.json'))) {
    throw new Error(`${out} has other files than those of a release`);
  }
  const commit = `${run('git', ['rev-parse', 'HEAD']).trim()}${isDirty() ? '-dirty' : ''}`;
  const artifacts: Artifact[] = [];
  const left: { part: Name; reason: string }[] = [];
  const folder = mkdtempSync(join(tmpdir(), 'release-'));
  const [copy, packed] = [join(folder, 'sources'), join(folder, 'packed')];
  try {
    mkdirSync(packed);
    if (only.includes('construct') || only.includes('assembly')) linkPackages(CDK);
    copyRepository(copy);
    for (const part of NAMES) {
      const { kind } = PACKAGES[part];
      if (!only.includes(part)) {
        left.push({ part, reason: 'not in --only' });
        continue;
      }
      console.error(`packing ${part} …`);
      if (kind === 'npm') artifacts.push(packNpm(part, copy, packed));
      else if (kind === 'zip') artifacts.push(packCloudAssembly(part, copy, packed));
      else if (kind === 'python') artifacts.push(...packPython(part, copy, packed));
      else if (works('docker', 'info')) artifacts.push(buildImage(part, copy, image));
      else if (requireImage) throw new Error('the image needs a Docker engine, and none answers "docker info"');
      else left.push({ part, reason: 'no Docker engine answers "docker info"' });
    }
    const sums = artifacts.filter(({ kind }) => kind !== 'image').map(({ sha256, file }) => `${sha256}  ${file}\n`);
    const release: Release = { version, commit, artifacts, left_out: left };
    writeFileSync(join(packed, 'SHA256SUMS'), sums.join(''));
    writeFileSync(join(packed, 'manifest.json'), `${JSON.stringify(release, null, 2)}\n`);
    if (!dryRun) {
      rmSync(out, { recursive: true, force: true });
      cpSync(packed, out, { recursive: true });
    }
    return release;
  } finally {
    rmSync(folder, { recursive: true, force: true });
    for (const { kind, file } of artifacts) if (dryRun && kind === 'image') run('docker', ['image', 'rm', file]);
  }
}

/**
 * Returns the command that publishes an artifact. The commands for Python skip artifacts that are already in the
 * registry.
 */
function publishCommand({ kind, file, version }: Artifact, folder: string, provenance: boolean): string[] {
  const path = join(folder, file);
  if (kind === 'npm') return ['npm', 'publish', path, ...(provenance ? ['--provenance'] : []), '--access', 'public'];
  if (kind === 'image') return ['docker', 'push', file];
  if (kind === 'zip')
    return ['gh', 'release', 'create', `v${version}`, path, '--verify-tag', '--notes', 'See CHANGELOG.md.'];
  if (works('uv', '--version') && !works('twine', '--version')) {
    return ['uv', 'publish', '--check-url', 'https://pypi.org/simple/', path];
  }
  return ['twine', 'upload', '--skip-existing', path];
}

/** Returns whether the registry has the artifact. Throws if it has a different one with the same version. */
function isPublished({ kind, name, version, file }: Artifact, folder: string): boolean {
  if (kind === 'python') return false;
  if (kind === 'image') return works('docker', 'manifest', 'inspect', file);
  const args = ['view', `${name}@${version}`, 'dist.integrity', '--prefer-online'];
  const { status, error, stdout, stderr } = attempt('npm', args);
  if (status !== 0 && !stderr.includes('E404'))
    throw new Error(`npm ${args.join(' ')} failed:\n${error ?? stderr.trim()}`);
  if (status !== 0 || stdout.trim() === '') return false;
  const integrity = `sha512-${createHash('sha512')
    .update(readFileSync(join(folder, file)))
    .digest('base64')}`;
  if (stdout.trim() === integrity) return true;
  throw new Error(`the registry has another ${name}@${version}: make a new version`);
}

interface PublishOptions {
  readonly out: string;
  readonly yes?: true;
  readonly provenance: boolean;
}

/** Throws unless HEAD, the changelog and the tools on this machine match the packed release. */
function checkRelease({ version, commit, artifacts }: Release, out: string): void {
  const head = run('git', ['rev-parse', 'HEAD']).trim();
  if (commit !== head) throw new Error(`${out} was packed from ${commit}, and HEAD is ${head}: pack it again`);
  if (changelogHeading(version).includes('not released')) {
    throw new Error(`CHANGELOG.md says that ${version} is not released yet: write the date, commit, and pack again`);
  }
  for (const { kind, file, sha256 } of artifacts) {
    if (kind === 'image' && !file.includes('/')) {
      throw new Error(`${file} names no registry: pack with --image <registry>/<name>`);
    }
    if (kind !== 'image' && sha256Of(readFileSync(join(out, file))) !== sha256) {
      throw new Error(`${join(out, file)} has changed since it was packed`);
    }
  }
  if (artifacts.some(({ kind }) => kind === 'python') && !works('twine', '--version') && !works('uv', '--version')) {
    throw new Error('the Python SDK needs twine or uv: python3 -m pip install twine');
  }
}

/**
 * Publishes the artifacts of a packed release in order. Stops at the first failure. The assembly is attached to the
 * release on GitHub by a job of its own, because that takes a right to write to the repository.
 */
function publish({ out, yes, provenance }: PublishOptions): void {
  const release: Release = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'));
  checkRelease(release, out);
  const artifacts = release.artifacts.filter(({ kind }) => kind !== 'zip');
  const commands = artifacts.map((artifact) => publishCommand(artifact, out, provenance));
  if (!yes) {
    const lines = commands.map((command) => `  ${command.join(' ')}\n`);
    throw new Error(`nothing is published without --yes, which runs:\n${lines.join('')}`);
  }
  for (const [index, artifact] of artifacts.entries()) {
    try {
      if (isPublished(artifact, out)) {
        console.log(`${artifact.file}: published before`);
        continue;
      }
      const [command, ...args] = commands[index]!;
      const { status, error } = spawnSync(command!, args, { stdio: 'inherit' });
      if (status !== 0) throw new Error(`${commands[index]!.join(' ')} failed${error ? `: ${error.message}` : ''}`);
      console.log(`${artifact.file}: published`);
    } catch (error) {
      const rest = artifacts.slice(index).map(({ file }) => file);
      throw new Error(
        `${(error as Error).message}\nNot published: ${rest.join(', ')}. Run the command again after the fix.`,
      );
    }
  }
}

function packCommand(options: PackOptions): void {
  const { out, dryRun, json } = options;
  const release = pack(options);
  const artifacts = release.artifacts.map((artifact) => {
    return { ...artifact, publish: publishCommand(artifact, out, true).join(' ') };
  });
  const lines = [
    ...artifacts.map(({ file, bytes, sha256, publish }) => `${file}  ${bytes} bytes  ${sha256}\n  ${publish}`),
    ...release.left_out.map(({ part, reason }) => `left out: ${part} (${reason})`),
    ...(release.commit.endsWith('-dirty') ? ['The tree has uncommitted changes: publish refuses this release.'] : []),
    dryRun ? 'Nothing was kept: this was a dry run.' : `Packed ${release.version} into ${out}.`,
  ];
  console.log(json ? JSON.stringify({ ...release, artifacts }, null, 2) : lines.join('\n'));
}

const OUT = ['--out <folder>', 'folder of the packed release', 'dist/release'] as const;
const program = new Command('release').description('Set the version, pack a release, publish it (docs/release.md).');
program.command('version <version>').description('set the version everywhere').action(setVersion);
program
  .command('pack')
  .description('build, pack and check everything that is published')
  .option(...OUT)
  .option('--image <name>', 'name of the image with its registry', 'agent-platform')
  .option('--require-image', 'fail without a Docker engine, instead of leaving out the image')
  .addOption(new Option('--only <parts...>', 'pack these parts only').choices(NAMES))
  .option('--dry-run', 'keep nothing; print what would be published')
  .option('--json', 'print the manifest')
  .action(packCommand);
program
  .command('publish')
  .description('publish a packed release; published artifacts are skipped')
  .option(...OUT)
  .option('--yes', 'publish; without it, print the commands')
  .option('--no-provenance', 'publish to npm from a machine that is no CI runner')
  .action(publish);
try {
  program.parse();
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
