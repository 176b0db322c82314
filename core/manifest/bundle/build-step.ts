import type { AgentDefinition } from '../definition.ts';
import { isObject } from '../field-error.ts';
import type { BundleReport } from './bundle.ts';

/** What an upload builds, besides installing dependencies. */
export interface Build {
  /** Shell lines, run in order in a copy of the bundle. Never empty. */
  readonly commands: readonly string[];
  /** Whether `package.json` has it, not the manifest. */
  readonly isDefault: boolean;
}

/** Members of `package.json` that decide about a build. */
interface PackageJson {
  readonly scripts: Readonly<Record<string, unknown>>;
  readonly dependencies: readonly string[];
  readonly devDependencies: readonly string[];
  readonly main: string | undefined;
  /** Names of the programs of its packages, as far as their names or `package-lock.json` tell. */
  readonly programs: ReadonlySet<string>;
}

const MAX_NESTED_SCRIPTS = 20;
/** Programs of packages that have another name than their package. */
const PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  typescript: ['tsc'],
  '@nestjs/cli': ['nest'],
  '@angular/cli': ['ng'],
  '@vue/cli-service': ['vue-cli-service'],
  '@sveltejs/kit': ['svelte-kit'],
  'npm-run-all': ['run-s', 'run-p', 'npm-run-all'],
  'npm-run-all2': ['run-s', 'run-p', 'npm-run-all'],
};

export function readPackageJson(bundle: Pick<BundleReport, 'textOf'>): PackageJson | undefined {
  const text = bundle.textOf('package.json');
  if (text === undefined) return undefined;
  try {
    const { scripts, dependencies, devDependencies, main } = JSON.parse(text);
    const packages = {
      dependencies: Object.keys(dependencies ?? {}),
      devDependencies: Object.keys(devDependencies ?? {}),
    };
    const names = [...packages.dependencies, ...packages.devDependencies];
    return {
      ...packages,
      scripts: isObject(scripts) ? scripts : {},
      main: typeof main === 'string' ? main : undefined,
      programs: new Set([...names.flatMap(programsOf), ...lockedPrograms(bundle, names)]),
    };
  } catch {
    // npm reports the error.
    return undefined;
  }
}

/**
 * Returns the build of a bundle. The manifest's `build` comes first. Without one, it is the script `build` of
 * `package.json`, if there are `devDependencies` and the script uses a package. Returns `undefined` if there is nothing
 * to build; an empty list in the manifest says so.
 */
export function buildOf(
  bundle: Pick<BundleReport, 'textOf' | 'files'>,
  { build }: Pick<AgentDefinition, 'build'>,
): Build | undefined {
  if (build) return build.length > 0 ? { commands: build, isDefault: false } : undefined;
  const file = readPackageJson(bundle);
  if (file === undefined || file.devDependencies.length === 0) return undefined;
  if (typeof file.scripts.build !== 'string' || !usesPackage(file, bundle)) return undefined;
  return { commands: ['npm run build'], isDefault: true };
}

/** Whether the script `build`, or one that it runs, starts a program of a package, or a file of the bundle by Node. */
function usesPackage({ scripts, programs }: PackageJson, { files }: Pick<BundleReport, 'files'>): boolean {
  const names = new Set(['build']);
  for (const name of names) {
    const script = scripts[name];
    if (typeof script !== 'string' || names.size > MAX_NESTED_SCRIPTS) continue;
    const words = script.split(/[\s;&|()'"]+/);
    for (const [index, word] of words.entries()) {
      if (programs.has(word)) return true;
      if (word === 'node' && files.some(({ path }) => path === words[index + 1]?.replace(/^\.\//, ''))) return true;
      if (Object.hasOwn(scripts, word)) names.add(word);
    }
  }
  return false;
}

const programsOf = (name: string): readonly string[] => [
  ...(Object.hasOwn(PROGRAMS, name) ? PROGRAMS[name]! : []),
  name,
  name.replace(/^@[^/]*\//, '').replace(/-cli$/, ''),
  name.replace(/^@/, '').replace(/\/cli$/, ''),
];

function lockedPrograms(bundle: Pick<BundleReport, 'textOf'>, names: readonly string[]): string[] {
  try {
    const { packages = {} } = JSON.parse(bundle.textOf('package-lock.json') ?? '{}');
    return names.flatMap((name) => Object.keys(packages[`node_modules/${name}`]?.bin ?? {}));
  } catch {
    return [];
  }
}
