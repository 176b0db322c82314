import { posix } from 'node:path';
import { PlatformError } from '#core/base/errors.ts';
import { isOnTargetList } from '#core/outbound/host-list.ts';
import type { AgentDefinition } from '../definition.ts';
import { isObject, quote } from '../field-error.ts';
import type { BundleReport } from './bundle.ts';
import { AGENT_FOLDER, SOURCE_FOLDER } from './install-plan.ts';
import { type LockedPackages, placeOf, requirementOf } from './lock-file.ts';
import { packagesWithoutSdk, requirementsWithoutSdk } from './sdk-requirement.ts';

/** Maximum characters of all requirement files together. */
const MAX_REQUIREMENTS = 1024 * 1024;
const MAX_REQUIREMENT_FILES = 20;

const VERSION_CONTROL = /^(git|hg|svn|bzr|ssh)(\+|$)/;
/** Options of pip that take a file or folder, in the same word or the next one. */
const PATH_OPTION = /^(?:-[recf](?!\w*-)|--(?:requirement|constraint|editable|find-links)(?==|$))=?(.*)$/;
const NESTED_OPTION = /^(-[rc]|--(requirement|constraint))/;
/** npm's notations for repositories: `github:user/repo`, `user/repo`, `git@host:path`. */
const NPM_REPOSITORY = /^(git|github|gitlab|bitbucket|gist):|^[\w.-]+@[\w.-]+:|^[A-Za-z0-9_-][\w.-]*\/[^/:\s]+$/;
const NPM_PATH = /^(?:file:|link:|(?=\.{0,2}\/|~\/))/;

/** Where lines of other lock files say that a package comes from, unless that is the registry of npm. */
const OTHER_LOCKS = [
  ['pnpm-lock.yaml', /\b(?:tarball|repo): ['"]?([^\s,}'"]+)/],
  ['yarn.lock', /^ {2}(?:resolved "|resolution: "@?[^@"]+@(?!npm:|workspace:|patch:|portal:|link:))([^"#]+)/],
] as const;
/** These addresses are replaced with the configured registry. */
const REPLACED_REGISTRIES = /^https?:\/\/registry\.(?:npmjs\.org|yarnpkg\.com)\//;

/**
 * Returns where a source is declared: `requirements.txt, line 3`. Called only for errors, because finding a line means
 * reading the file.
 */
type Place = () => string;

/**
 * Refuses dependencies from outside the bundle and the package registries of this platform
 * (`docs/interface/installations.md#dependencies`): addresses of git, of files and of other registries, paths out of the
 * bundle. Throws INVALID_INPUT, which names the file and the line.
 */
export class DependencySources {
  readonly #bundle: Pick<BundleReport, 'textOf'>;
  readonly #registries: readonly string[];
  readonly #seen = new Set<string>();
  #read = 0;

  /** @param registries list of `host:port` */
  constructor(bundle: Pick<BundleReport, 'textOf'>, registries: readonly string[]) {
    this.#bundle = bundle;
    this.#registries = registries;
  }

  /** Checks the installer flags of `environment` in the manifest. */
  checkFlags(environment: AgentDefinition['environment']): void {
    for (const name of ['pip_flags', 'npm_flags'] as const) {
      for (const word of (environment?.[name] ?? '').split(/\s+/)) {
        this.#checkAddress(() => `environment.${name} of the manifest`, word);
      }
    }
  }

  /** Checks a requirements file and the files that it includes. */
  checkRequirements(path: string, text = this.#bundle.textOf(path)): void {
    if (text === undefined || this.#seen.has(path)) return;
    this.#seen.add(path);
    this.#read += text.length;
    if (this.#read > MAX_REQUIREMENTS || this.#seen.size > MAX_REQUIREMENT_FILES) {
      const limits = `${MAX_REQUIREMENTS / 1024 ** 2} MB or ${MAX_REQUIREMENT_FILES} files`;
      throw refused(() => 'requirements.txt', `has more than ${limits}, with the files that it names`, 'Name less.');
    }
    for (const { number, line } of logicalLines(text)) {
      if (requirementsWithoutSdk(line).trim() === '') continue;
      this.#checkRequirement(() => `${path}, line ${number}`, line, posix.dirname(path));
    }
  }

  /** Checks the dependencies of `pyproject.toml`. */
  checkProject(text: string, dependencies: readonly string[]): void {
    for (const each of dependencies) {
      if (requirementsWithoutSdk(each).trim() === '') continue;
      this.#checkRequirement(() => `pyproject.toml${lineOf(text, each)}`, each, '.');
    }
  }

  /** Checks where the packages of a lock file come from. */
  checkLock({ file, packages }: LockedPackages): void {
    for (const each of packages) {
      if (each.source === undefined || requirementsWithoutSdk(each.name).trim() === '') continue;
      this.#checkRequirement(() => placeOf(file, each), requirementOf(each), '.');
    }
  }

  #checkRequirement(place: Place, line: string, folder: string): void {
    const words = line.split(/\s+/);
    for (let index = 0; index < words.length; index++) {
      const word = words[index]!;
      const option = PATH_OPTION.exec(word);
      const value = option ? option[1] || (words[++index] ?? '') : word;
      if (value.startsWith('file:')) this.#checkPath(place, value.replace(/^file:(\/\/(localhost)?(?=\/))?/, ''));
      else if (this.#checkAddress(place, value)) continue;
      else if (option && NESTED_OPTION.test(word)) {
        const nested = posix.join(folder, value);
        this.#checkPath(place, value.startsWith('/') ? value : nested);
        this.checkRequirements(nested);
      } else if (option || (index === 0 && /^[./~]/.test(value))) this.#checkPath(place, value);
    }
  }

  /** Checks what npm would install: the content of a lock file, or the dependencies of `package.json` without one. */
  checkPackages(): void {
    const given = this.#bundle.textOf('package.json');
    if (given === undefined) return;
    const givenLock = this.#bundle.textOf('package-lock.json');
    const { packageJson, lock } = packagesWithoutSdk(given, givenLock);
    const file = parseObject(packageJson);
    const members = ['dependencies', 'optionalDependencies', 'peerDependencies', ...(lock ? [] : ['devDependencies'])];
    for (const member of [...members, 'overrides']) {
      for (const [name, wanted] of textsIn(file[member])) {
        const place = () => `package.json${lineOf(given, JSON.stringify(wanted))}, ${quote(name)}`;
        this.#checkPackage(place, wanted);
      }
    }
    for (const [name, resolved] of resolvedIn(parseObject(lock ?? '{}'))) {
      const place = () => `package-lock.json${lineOf(givenLock!, JSON.stringify(resolved))}, ${quote(name)}`;
      if (REPLACED_REGISTRIES.test(resolved)) continue;
      this.#checkPackage(place, resolved);
    }
    if (lock === undefined) this.#checkOtherLock();
    for (const [index, line] of (this.#bundle.textOf('.npmrc') ?? '').split('\n').entries()) {
      const [, address] = /^\s*(?:@[^\s:=]*:)?registry\s*=\s*(\S+)/.exec(line) ?? [];
      if (address !== undefined) this.#checkAddress(() => `.npmrc, line ${index + 1}`, address);
    }
  }

  /** Checks the lock file of pnpm, or else of Yarn. Only npm's says which packages are for development. */
  #checkOtherLock(): void {
    for (const [file, pattern] of OTHER_LOCKS) {
      const text = this.#bundle.textOf(file);
      if (text === undefined) continue;
      for (const [index, line] of text.split('\n').entries()) {
        const [, address] = pattern.exec(line) ?? [];
        if (address === undefined || REPLACED_REGISTRIES.test(address)) continue;
        this.#checkPackage(() => `${file}, line ${index + 1}`, address);
      }
      return;
    }
  }

  #checkPackage(place: Place, wanted: string): void {
    if (NPM_PATH.test(wanted)) this.#checkPath(place, wanted.replace(/^(file|link):(\/\/(?=\/))?/, ''));
    else if (!this.#checkAddress(place, wanted) && NPM_REPOSITORY.test(wanted)) throw repository(place);
  }

  /** Returns whether a word is an address. Throws if it is not an address of a registry. */
  #checkAddress(place: Place, word: string): boolean {
    const [, scheme] = /^([a-z]{2,4})\+/i.exec(word) ?? [];
    if (scheme !== undefined && VERSION_CONTROL.test(scheme.toLowerCase())) throw repository(place);
    const at = word.indexOf('://');
    if (at < 0) return false;
    const [protocol = ''] = /[A-Za-z][A-Za-z0-9+.-]*$/.exec(word.slice(Math.max(0, at - 20), at)) ?? [];
    if (VERSION_CONTROL.test(protocol.toLowerCase())) throw repository(place);
    const address = `${protocol}${word.slice(at)}`;
    const url = URL.canParse(address) ? new URL(address) : undefined;
    const port = Number(url?.port || (url?.protocol === 'http:' ? 80 : 443));
    const isRegistry =
      url !== undefined &&
      /^https?:$/.test(url.protocol) &&
      isOnTargetList({ host: url.hostname.replace(/^\[|\]$/g, ''), port }, this.#registries);
    if (isRegistry) return true;
    // The message contains neither path nor user name, because both may hold a credential.
    throw refused(
      place,
      `names ${url === undefined ? 'an address' : `an address of ${quote(url.host)}`}, which is not a package registry of this platform`,
      FIX,
    );
  }

  #checkPath(place: Place, path: string): void {
    const own = [AGENT_FOLDER, SOURCE_FOLDER].find((folder) => path === folder || path.startsWith(`${folder}/`));
    const inside = posix.normalize(own === undefined ? path : `.${path.slice(own.length)}`);
    if (!/^(\/|~|\.\.(\/|$))/.test(inside)) return;
    throw refused(place, `names the path ${quote(path)}, which is not in the bundle`, FIX);
  }
}

const FIX =
  'Name a release that is in the registry, or put the package into the bundle and name its path, such as "./vendor/name" (npm: "file:./vendor/name").';

const refused = (place: Place, why: string, fix: string): PlatformError =>
  new PlatformError('INVALID_INPUT', `${place()}: ${why}.`, { hint: fix });

const repository = (place: Place): PlatformError =>
  refused(place, 'names a version control repository, but dependencies must come from package registries', FIX);

/** Yields lines as pip reads them: joined after a backslash, without comments and empty lines. */
function* logicalLines(text: string): Generator<{ readonly number: number; readonly line: string }> {
  let [joined, start] = ['', 0];
  const lines = text.split(/\r\n|\r|\n/);
  for (const [index, raw] of lines.entries()) {
    if (joined === '') start = index + 1;
    if (raw.endsWith('\\') && index < lines.length - 1 && !/^\s*#/.test(raw)) {
      joined += `${raw.slice(0, -1)} `;
      continue;
    }
    const whole = joined + raw;
    joined = '';
    const comment = whole.search(/(?:^|\s)#/);
    const line = (comment < 0 ? whole : whole.slice(0, comment)).trim();
    if (line !== '') yield { number: start, line };
  }
}

/** Returns `, line 3` for the first occurrence of a text; empty if the file spells it differently. */
function lineOf(text: string, wanted: string): string {
  const at = text.indexOf(wanted);
  return at < 0 ? '' : `, line ${text.slice(0, at).split('\n').length}`;
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    // npm reports a better error itself.
    return {};
  }
}

/** Yields all texts in nested objects, with their names. Iterative, because the nesting may be deep. */
function* textsIn(root: unknown): Generator<[name: string, text: string]> {
  const open = [root];
  while (open.length > 0) {
    const value = open.pop();
    if (!isObject(value)) continue;
    for (const [name, member] of Object.entries(value)) {
      if (typeof member === 'string') yield [name, member];
      else open.push(member);
    }
  }
}

/** Yields the sources of the packages that a lock file installs, in all versions of its format. */
function* resolvedIn(lock: Record<string, unknown>): Generator<[name: string, address: string]> {
  const open = [lock.packages, lock.dependencies];
  while (open.length > 0) {
    const entries = open.pop();
    if (!isObject(entries)) continue;
    for (const [name, entry] of Object.entries(entries)) {
      if (!isObject(entry) || entry.dev === true || entry.link === true) continue;
      const address = entry.resolved ?? entry.version;
      if (typeof address === 'string' && address.includes(':')) yield [name, address];
      open.push(entry.dependencies);
    }
  }
}
