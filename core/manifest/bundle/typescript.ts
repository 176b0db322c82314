import { posix } from 'node:path';
import type { AgentDefinition } from '../definition.ts';
import type { BundleReport } from './bundle.ts';
import { ownCommand } from './entrypoint.ts';

const TYPESCRIPT = /\.[cm]?tsx?$/;
/** These run TypeScript by themselves. */
const OWN_RUNTIME =
  /(?:^|[\s/])(?:tsx|ts-node|ts-node-esm|bun|deno|swc-node|vite-node)(?:\s|$)|--(?:import|loader|require|experimental-)/;
const MAX_FILES = 500;
/** Syntax that Node cannot remove as types: https://nodejs.org/api/typescript.html#typescript-features */
const NOT_ERASABLE = [
  /^[ \t]*(?:export )?(?:declare )?(?:const )?enum [\w$]+/m,
  /^[ \t]*(?:export )?(?:namespace|module) [\w$.]+ ?\{/m,
  /^[ \t]*(?:export )?import [\w$]+ ?= ?[\w$]/m,
  /^export = /m,
  /^[ \t]*@[A-Za-z_$]/m,
  /[(,][ \t\n]*(?:private|public|protected|readonly|override) [\w$]/,
];
/** Imports and exports from other modules: names, then the specifier. */
const IMPORTS = /(?:^|[;}\n])[ \t]*(?:import|export)\b([^'"`;]{0,4000})['"]([^'"\n]{1,500})['"]/g;
const DYNAMIC_IMPORTS = /\b(?:import|require)\(\s{0,10}['"]([^'"\n]{1,500})['"]/g;
const EXPORTED_TYPE = /\bexport (?:declare )?(?:type|interface) ([\w$]+)/g;
/** Aliases of a tsconfig: `"@/*": [`. */
const PATHS = /"paths"\s{0,10}:\s{0,10}\{([^}]{0,10000})\}/;

/**
 * Returns the files of TypeScript that a program is started with, if Node cannot run them, or what they import, as they
 * are: Node only removes types. Returns an empty list if Node can, or if the command names a program that can.
 */
export function filesToCompile(
  bundle: Pick<BundleReport, 'files' | 'textOf'>,
  definition: Pick<AgentDefinition, 'runtime' | 'run_command' | 'entrypoint'>,
  entrypoint: string | null,
): string[] {
  const paths = new Set(bundle.files.map(({ path }) => path));
  const command = ownCommand(definition);
  if (command !== undefined && (OWN_RUNTIME.test(command) || !/\bnode\b/.test(command))) return [];
  const words = command === undefined ? [entrypoint ?? ''] : command.split(/[\s"';&|<>()]+/);
  const roots = words
    .map((word) => word.replace(/^\.\//, ''))
    .filter((word) => TYPESCRIPT.test(word) && paths.has(word));
  const aliases = aliasesOf(bundle);
  const files = new Set(roots);
  // Files that are added during the iteration are visited, too.
  for (const file of files) {
    if (files.size > MAX_FILES) break;
    const text = bundle.textOf(file)!;
    if (NOT_ERASABLE.some((pattern) => pattern.test(text))) return roots;
    for (const { names, specifier } of importsOf(text)) {
      if (aliases.some((alias) => specifier.startsWith(alias))) return roots;
      if (!/^\.{1,2}(?:\/|$)/.test(specifier)) continue;
      const target = posix.join(posix.dirname(file), specifier);
      if (!paths.has(target)) {
        if (candidatesOf(target).some((path) => paths.has(path))) return roots;
        continue;
      }
      if (!TYPESCRIPT.test(target)) continue;
      if (target.endsWith('x') || importsType(names, bundle.textOf(target)!)) return roots;
      files.add(target);
    }
  }
  return [];
}

function importsOf(text: string): { readonly names: string; readonly specifier: string }[] {
  return [
    ...[...text.matchAll(IMPORTS)].map(([, names, specifier]) => ({ names: names!, specifier: specifier! })),
    ...[...text.matchAll(DYNAMIC_IMPORTS)].map(([, specifier]) => ({ names: '', specifier: specifier! })),
  ];
}

/** Files that TypeScript finds for a path that is not there itself. */
function candidatesOf(target: string): string[] {
  const [, start = target, kind = ''] = /^(.*)\.([cm]?)jsx?$/.exec(target) ?? [];
  const names =
    start === target ? ['.ts', '.tsx', '/index.ts', '/index.tsx', '.mts', '.js', '.json'] : [`.${kind}ts`, '.tsx'];
  return names.map((name) => start + name);
}

/** Whether an import without `type` names a type of the file, which Node would look for in vain. */
function importsType(names: string, text: string): boolean {
  if (/^\s{0,100}type\b/.test(names)) return false;
  const types = new Set([...text.matchAll(EXPORTED_TYPE)].map(([, name]) => name));
  if (types.size === 0) return false;
  const [, listed = ''] = /\{([^}]{0,4000})\}/.exec(names) ?? [];
  return listed.split(',').some((each) => types.has(each.trim().split(/\s+/)[0]!));
}

/** Beginnings of specifiers that a tsconfig maps to files. */
function aliasesOf(bundle: Pick<BundleReport, 'textOf'>): string[] {
  const [, paths = ''] = PATHS.exec(bundle.textOf('tsconfig.json') ?? '') ?? [];
  return [...paths.matchAll(/"([^"*]{1,200})\*?"\s{0,10}:/g)].map(([, alias]) => alias!);
}
