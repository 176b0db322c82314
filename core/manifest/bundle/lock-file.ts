import { quote } from '../field-error.ts';
import type { BundleReport } from './bundle.ts';

/** A package that `uv.lock` or `poetry.lock` pins. */
export interface LockedPackage {
  readonly name: string;
  readonly version: string | undefined;
  /** Line of its entry, from 1. */
  readonly line: number;
  /** Where it comes from, such as `git` or `registry`, and the address or path; absent for the default index. */
  readonly source?: { readonly kind: string; readonly at: string };
}

/** The packages that a lock file pins for a run, without those for development only. */
export interface LockedPackages {
  readonly file: 'uv.lock' | 'poetry.lock';
  readonly packages: readonly LockedPackage[];
}

interface Entry {
  name: string;
  version: string | undefined;
  readonly line: number;
  source: { kind: string; at: string } | undefined;
  /** Names, of all extras as well. */
  readonly dependencies: string[];
  isForDevelopment: boolean;
}

const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;
const VERSION = /^[A-Za-z0-9][A-Za-z0-9.!+_-]*$/;
const DEFAULT_INDEX = /^https:\/\/pypi\.org\/simple\/?$/;

/**
 * Reads the packages of a lock file. Both programs write one member a line, which allows reading large files in linear
 * time. Skips what it does not know.
 */
export function readLock(file: LockedPackages['file'], text: string): LockedPackages {
  const entries = file === 'uv.lock' ? reachable(readEntries(text)) : readEntries(text);
  return {
    file,
    packages: entries
      .filter(
        ({ name, version, isForDevelopment }) => NAME.test(name) && VERSION.test(version ?? '0') && !isForDevelopment,
      )
      .map(({ name, version, line, source }) => ({ name, version, line, ...(source && { source }) })),
  };
}

/** Reads the lock file of a project in Python; `undefined` if the bundle has none. */
export function lockOf(bundle: Pick<BundleReport, 'textOf'>): LockedPackages | undefined {
  for (const file of ['uv.lock', 'poetry.lock'] as const) {
    const text = bundle.textOf(file);
    if (text !== undefined) return readLock(file, text);
  }
  return undefined;
}

/**
 * Returns the pinned versions as a constraints file of pip. Omits packages from paths, and those that are there in
 * several versions for different platforms.
 */
export function constraintsOf({ packages }: LockedPackages): string {
  const versions = new Map<string, Set<string>>();
  for (const { name, version, source } of packages) {
    if (version === undefined || isLocal(source)) continue;
    versions.set(name, (versions.get(name) ?? new Set()).add(version));
  }
  return [...versions]
    .flatMap(([name, [version, ...others]]) => (others.length > 0 ? [] : `${name}==${version}\n`))
    .join('');
}

/** Returns the paths of further packages in the bundle, such as members of a workspace. */
export const localPackagesOf = ({ packages }: LockedPackages): readonly string[] =>
  packages.flatMap(({ source }) => (isLocal(source) && source!.at !== '.' ? [source!.at] : []));

const LOCAL = ['editable', 'virtual', 'directory', 'path', 'file'];
const isLocal = (source: LockedPackage['source']): boolean => source !== undefined && LOCAL.includes(source.kind);

/** Describes the source of a package as a requirement that names it. */
export const requirementOf = ({ name, source }: LockedPackage): string =>
  source === undefined
    ? name
    : isLocal(source)
      ? `./${source.at}`
      : `${name} @ ${source.kind === 'git' ? 'git+' : ''}${source.at}`;

export const placeOf = (file: string, { name, line }: LockedPackage): string => `${file}, line ${line}, ${quote(name)}`;

function readEntries(text: string): Entry[] {
  const entries: Entry[] = [];
  let entry: Entry | undefined;
  let table = '';
  let isInArray = false;
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const header = /^\[\[?([\w.-]+)\]?\]/.exec(line)?.[1];
    if (header !== undefined) {
      table = header;
      isInArray = false;
      if (line.startsWith('[[package]]')) {
        entry = {
          name: '',
          version: undefined,
          line: index + 1,
          source: undefined,
          dependencies: [],
          isForDevelopment: false,
        };
        entries.push(entry);
      }
      continue;
    }
    if (entry === undefined) continue;
    if (table === 'package.source') addTo(entry, line);
    else if (table === 'package') addMember(entry, line);
    if (table !== 'package' && table !== 'package.optional-dependencies') continue;
    // In uv.lock: `dependencies = [`, then `{ name = "idna" },` in each line.
    if (/^[\w-]+ = \[/.test(line)) isInArray = table !== 'package' || line.startsWith('dependencies = [');
    if (isInArray) for (const [, name] of line.matchAll(/\{ name = "([^"]+)"/g)) entry.dependencies.push(name!);
    if (/\]$/.test(line)) isInArray = false;
  }
  return entries;
}

function addMember(entry: Entry, line: string): void {
  const [, member, value] = /^(name|version|category|groups|source) = (.*)$/.exec(line) ?? [];
  if (value === undefined) return;
  const text = /^"([^"]*)"/.exec(value)?.[1];
  if (member === 'name') entry.name = text ?? '';
  else if (member === 'version') entry.version = text;
  else if (member === 'category') entry.isForDevelopment = text === 'dev';
  else if (member === 'groups') entry.isForDevelopment = !value.includes('"main"');
  else {
    const [, kind, at] = /^\{ (\w+) = "([^"]*)"/.exec(value) ?? [];
    if (kind !== undefined) entry.source = sourceOf(kind, at!);
  }
}

/** The table `[package.source]` of poetry.lock: `type = "git"`, `url = "..."`. */
function addTo(entry: Entry, line: string): void {
  const [, member, value] = /^(type|url) = "([^"]*)"/.exec(line) ?? [];
  if (value === undefined) return;
  const { kind = '', at = '' } = entry.source ?? {};
  entry.source = member === 'type' ? sourceOf(value, at) : sourceOf(kind, value);
}

const sourceOf = (kind: string, at: string): Entry['source'] =>
  kind === 'registry' && DEFAULT_INDEX.test(at) ? undefined : { kind, at };

/** Returns the packages that the project itself needs, extras included, without its groups for development. */
function reachable(entries: readonly Entry[]): Entry[] {
  const byName = new Map<string, Entry[]>();
  for (const entry of entries) {
    const others = byName.get(entry.name);
    if (others) others.push(entry);
    else byName.set(entry.name, [entry]);
  }
  const names = new Set(entries.filter(({ source }) => source?.at === '.').map(({ name }) => name));
  // Names that are added during the iteration are visited, too.
  for (const name of names) {
    for (const { dependencies } of byName.get(name) ?? []) for (const each of dependencies) names.add(each);
  }
  return entries.filter(({ name }) => names.has(name));
}
