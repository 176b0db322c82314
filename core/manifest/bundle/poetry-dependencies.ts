import { isObject } from '../field-error.ts';

/** Members of a dependency that is a table (https://python-poetry.org/docs/dependency-specification/). */
interface PoetryDependency {
  readonly version?: unknown;
  readonly extras?: unknown;
  readonly markers?: unknown;
  readonly python?: unknown;
  readonly optional?: unknown;
  readonly git?: unknown;
  readonly url?: unknown;
  readonly path?: unknown;
  readonly source?: unknown;
}

/**
 * Returns the dependencies of `[tool.poetry.dependencies]` as requirements of pip. An optional dependency is omitted, as
 * `poetry install` does. Returns the name of the first one that pip cannot express as `unknown`.
 */
export function poetryRequirements(dependencies: Record<string, unknown>): {
  readonly requirements: string[];
  readonly unknown?: string;
} {
  const requirements: string[] = [];
  for (const [name, given] of Object.entries(dependencies)) {
    if (name.toLowerCase() === 'python') continue;
    for (const each of Array.isArray(given) ? given : [given]) {
      const dependency: PoetryDependency | undefined =
        typeof each === 'string' ? { version: each } : isObject(each) ? each : undefined;
      if (dependency?.optional === true) continue;
      const requirement = dependency && requirementOf(name, dependency);
      if (requirement === undefined) return { requirements, unknown: name };
      requirements.push(requirement);
    }
  }
  return { requirements };
}

function requirementOf(name: string, dependency: PoetryDependency): string | undefined {
  const { version = '*', extras = [], markers, python, git, url, path, source } = dependency;
  if (typeof path === 'string') return `./${path.replace(/^\.\//, '')}`;
  if (typeof git === 'string') return `${name} @ git+${git}`;
  if (typeof url === 'string') return `${name} @ ${url}`;
  if (source !== undefined || typeof version !== 'string' || !Array.isArray(extras)) return undefined;
  const range = rangeOf(version);
  const pythons = python === undefined ? [] : typeof python === 'string' ? rangeOf(python) : undefined;
  if (range === undefined || pythons === undefined) return undefined;
  const conditions = [
    ...pythons.map((each) => each.replace(/^([<>=!~]{1,3})(.*)/s, 'python_full_version $1 "$2"')),
    ...(typeof markers === 'string' ? [`(${markers})`] : []),
  ];
  const extra = extras.length > 0 ? `[${extras.join(',')}]` : '';
  return `${name}${extra}${range.join(',')}${conditions.length > 0 ? ` ; ${conditions.join(' and ')}` : ''}`;
}

const RELEASE = /^v?(\d+(?:\.\d+)*)((?:[a-z]|\.?(?:dev|post))[\w.]*)?$/;

/** Returns the parts of a range as pip writes them; `undefined` for one that it cannot express, such as `^1 || ^2`. */
function rangeOf(version: string): string[] | undefined {
  const parts = version.split(',').map((part) => part.trim());
  const ranges = parts.map(partOf);
  return ranges.includes(undefined) ? undefined : ranges.flatMap((range) => range!);
}

function partOf(part: string): string[] | undefined {
  if (part === '*' || part === '') return [];
  const [operator = ''] = /^(?:\^|~(?!=)|[<>=!~]=?|===)/.exec(part) ?? [];
  const rest = part.slice(operator.length).trimStart();
  if (/^\d+(\.\d+)*\.\*$/.test(rest)) return [`${operator === '!=' ? '!=' : '=='}${rest}`];
  const release = RELEASE.exec(rest)?.[1]?.split('.').map(Number);
  if (release === undefined) return undefined;
  if (operator === '^') {
    const significant = release.findIndex((number) => number > 0);
    return between(rest, release, significant < 0 ? release.length - 1 : significant);
  }
  if (operator === '~') return between(rest, release, Math.min(1, release.length - 1));
  return [`${operator === '' || operator === '=' ? '==' : operator}${rest}`];
}

/** From a version up to the next one that differs at `position`. */
const between = (from: string, release: readonly number[], position: number): string[] => [
  `>=${from}`,
  `<${[...release.slice(0, position), release[position]! + 1].join('.')}`,
];
