import { posix } from 'node:path';

/** Name of the platform's own package (`sdk/python`, `sdk/js`) in pip and npm. Every sandbox has the package. */
export const SDK_NAME = 'agent-platform-sdk';

/**
 * Matches a line that names the package, in any spelling that pip treats as equal, with its continuation lines. A line
 * with another source does not match, except for the absolute path that `pip freeze` writes after `pip install
 * ./sdk/python`.
 */
const REQUIREMENT =
  /^[ \t]*agent[-_.]+platform[-_.]+sdk(?=[\s[<>=!~;#\\@]|$)(?![ \t]*(?:\[[^\]\n]*\][ \t]*)?@(?![ \t]*file:\/))(?:[^\n\\]+|\\\r?\n|\\)*\n?/gim;

/** Removes the platform's own package, so that a public registry cannot decide what its name installs. */
export const requirementsWithoutSdk = (text: string): string => text.replace(REQUIREMENT, '');

interface Dependencies {
  readonly [name: string]: string;
}
const MEMBERS = ['dependencies', 'optionalDependencies', 'devDependencies', 'peerDependencies'] as const;
type PackageJson = { [Member in (typeof MEMBERS)[number]]?: Dependencies };
interface Lock {
  readonly packages?: {
    readonly [path: string]: PackageJson & { readonly link?: boolean; readonly resolved?: string };
  };
  readonly dependencies?: { readonly [name: string]: unknown };
}

/**
 * Whether a dependency of that name is the platform's: it has a version range, or a path out of the bundle, as npm
 * writes it after `npm install <the platform's folder>/sdk/js`.
 */
function isOurs(wanted: unknown): boolean {
  if (typeof wanted !== 'string') return false;
  const path = /^(?:file:|link:|(?=\.{0,2}\/))(.*)$/.exec(wanted)?.[1];
  return path === undefined ? !/[:/]/.test(wanted) : /^(\.\.(\/|$)|\/)/.test(posix.normalize(path));
}

/**
 * Removes the package from `package.json` and from the lock file, which must agree. npm reports files that are not
 * JSON.
 */
export function packagesWithoutSdk(packageJson: string, lock?: string): { packageJson: string; lock?: string } {
  const given = parseObject<PackageJson>(packageJson);
  if (given === undefined || !MEMBERS.some((member) => isOurs(given[member]?.[SDK_NAME]))) return { packageJson, lock };
  const lockGiven = lock === undefined ? undefined : parseObject<Lock>(lock);
  return {
    packageJson: JSON.stringify(withoutName(given)),
    lock: lockGiven === undefined ? lock : JSON.stringify(lockWithoutSdk(lockGiven)),
  };
}

const without = <T>(members: { readonly [name: string]: T }, ...names: readonly (string | undefined)[]) =>
  Object.fromEntries(Object.entries(members).filter(([name]) => !names.includes(name)));

function withoutName<T extends PackageJson>(given: T): T {
  const changed = MEMBERS.filter((member) => given[member] !== undefined);
  return { ...given, ...Object.fromEntries(changed.map((member) => [member, without(given[member]!, SDK_NAME)])) };
}

function lockWithoutSdk(lock: Lock): Lock {
  const installed = `node_modules/${SDK_NAME}`;
  const entry = lock.packages?.[installed];
  return {
    ...lock,
    ...(lock.packages && {
      packages: {
        ...without(lock.packages, installed, entry?.link ? entry.resolved : undefined),
        ...(lock.packages[''] && { '': withoutName(lock.packages['']) }),
      },
    }),
    ...(lock.dependencies && { dependencies: without(lock.dependencies, SDK_NAME) }),
  };
}

function parseObject<T extends object>(text: string): T | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}
