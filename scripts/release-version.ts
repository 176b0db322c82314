import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const SOURCE = 'package.json';
const IN_MANIFEST = /(?<=^ {2}"version": ")[^"]+/gm;
const IN_FILE_NAME = /(?<=agent-platform-(?:cdk-)?)\d+\.\d+\.\d+(?=\.tgz)/g;

/** All files with the version of the release. The OpenAPI document has the version of the interface instead. */
const PLACES: readonly (readonly [file: string, version: RegExp])[] = [
  [SOURCE, IN_MANIFEST],
  ['package-lock.json', /(?<="name": "agent-platform(?:-repository|-dashboard)?",\n +"version": ")[^"]+/g],
  ['cli/package/package.json', IN_MANIFEST],
  ['dashboard/package.json', IN_MANIFEST],
  ['docs/site/package.json', IN_MANIFEST],
  ['docs/site/package-lock.json', /(?<="name": "agent-platform-docs",\n +"version": ")[^"]+/g],
  ['lib/package/package.json', IN_MANIFEST],
  ['sdk/js/package.json', IN_MANIFEST],
  ['sdk/python/pyproject.toml', /(?<=^version = ")[^"]+/gm],
  ['action/action.yml', /(?<=agent-platform@)\d+\.\d+\.\d+/g],
  ['Dockerfile', /(?<=org\.opencontainers\.image\.version=")[^"]+/g],
  ['examples/cdk/package.json', /(?<="agent-platform-cdk": ")[^"]+/g],
  ['examples/cdk/README.md', IN_FILE_NAME],
  ['docs/cdk.md', IN_FILE_NAME],
  ['docs/ci.md', /(?<=action@v)\d+\.\d+\.\d+/g],
  ['docs/self-host.md', IN_FILE_NAME],
  ['README.md', IN_FILE_NAME],
];

export const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
export const isDirty = (): boolean =>
  execFileSync('git', ['status', '--porcelain'], { cwd: ROOT, encoding: 'utf8' }) !== '';

/** Returns the version in every file. Throws if a file has none, for example after its format changed. */
export function versionsInPlaces(): { file: string; version: string }[] {
  return PLACES.flatMap(([file, pattern]) => {
    const versions = read(file).match(pattern);
    if (versions === null) throw new Error(`${file} has no version where scripts/release.ts expects it`);
    return versions.map((version) => ({ file, version }));
  });
}

/** Returns the version of the platform and everything that is released with it. */
export const currentVersion = (): string => JSON.parse(read(SOURCE)).version;

/** Finds the heading of a version in the changelog. */
export function changelogHeading(version: string): string {
  const heading = read('CHANGELOG.md')
    .split('\n')
    .find((line) => line === `## ${version}` || line.startsWith(`## ${version} `));
  if (heading === undefined) throw new Error(`CHANGELOG.md has no heading "## ${version}": write and commit it first`);
  return heading;
}

/** Writes the version to every file and prints their names. */
export function setVersion(version: string): void {
  const current = currentVersion();
  if (!/^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}$/.test(version)) {
    throw new Error(`"${version}" is not a version: write <major>.<minor>.<patch>; there are no pre-releases`);
  }
  if (version.localeCompare(current, 'en', { numeric: true }) <= 0) {
    throw new Error(`${version} is not newer than ${current}`);
  }
  changelogHeading(version);
  if (isDirty()) throw new Error('the tree has uncommitted changes: commit or stash them first');
  versionsInPlaces();
  for (const [file, pattern] of PLACES) {
    writeFileSync(join(ROOT, file), read(file).replaceAll(pattern, version));
    console.log(`${file}: ${current} -> ${version}`);
  }
}
