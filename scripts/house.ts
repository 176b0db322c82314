import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { parseSync } from 'oxc-parser';

/**
 * The wings of `core`, lowest first. A wing imports only itself and the wings before it (docs/architecture.md).
 * `automation`, `services` and `collaboration` are independent of each other.
 */
export const WINGS = [
  'base',
  'ports',
  'outbound',
  'models',
  'http',
  'accounts',
  'manifest',
  'agents',
  'runs',
  'billing',
  'execution',
  'automation',
  'services',
  'collaboration',
  'events',
  'wires',
  'api',
] as const;
const STRANGERS: readonly string[] = ['automation', 'services', 'collaboration'];

/** Folders that each top-level folder may import. Folders that are not listed may import everything. */
const FOLDERS: { readonly [folder: string]: readonly string[] } = {
  core: [],
  adapters: ['core'],
  runner: ['core'],
  cli: ['core', 'client'],
  client: ['core'],
  aws: ['core', 'adapters', 'runner'],
  local: ['core', 'client', 'adapters', 'runner'],
  functions: ['core', 'aws'],
  // Only types, and the modules in BROWSER_SAFE.
  dashboard: ['core'],
  lib: ['core'],
  // The stacks need the function bundles and the runner image, which scripts build.
  bin: ['lib', 'scripts', 'stages'],
  stages: ['lib'],
};

/** Packages that only the listed folders may load: vendor SDKs stay behind the ports, CDK stays out of the runtime. */
const PACKAGES: readonly { readonly name: RegExp; readonly folders: readonly string[] }[] = [
  // Requests to Amazon Bedrock must be signed.
  { name: /^@aws-sdk\/credential-provider-node$|^@smithy\/signature-v4$/, folders: ['adapters/llm'] },
  {
    name: /^@aws-sdk\/(?!credential-provider-node$)|^@middy\/|^@aws-lambda-powertools\//,
    folders: ['aws', 'functions'],
  },
  { name: /^@ai-sdk\//, folders: ['adapters/llm'] },
  { name: /^@modelcontextprotocol\//, folders: ['adapters/mcp', 'cli'] },
  { name: /^stripe$/, folders: ['adapters/stripe'] },
  { name: /^(openid-client|jose)$/, folders: ['adapters/oidc'] },
  { name: /^(aws-cdk-lib|constructs|cdk-nag)(\/|$)/, folders: ['lib', 'bin', 'stages'] },
  {
    name: /^(react|react-dom|react-aria-components|lucide-react|recharts|anser|diff|marked|vite)(\/|$)|^@(tanstack|rjsf|codemirror|cfworker|vitejs)\//,
    folders: ['dashboard'],
  },
];

/**
 * Files of `core` that the dashboard may load in a browser, because they do not need Node. From all others it may
 * import types.
 */
const BROWSER_SAFE: readonly string[] = [
  'core/agents/gates/standing.ts',
  'core/manifest/evals/suite.ts',
  'core/manifest/folder/agent-folder.ts',
  'core/manifest/folder/ignore-rules.ts',
  'core/manifest/publish-body.ts',
  'core/manifest/version.ts',
  'core/api/operation-path.ts',
  'core/base/attempt-text.ts',
  'core/base/held-text.ts',
  'core/base/run-kinds.ts',
  'core/execution/calls/answer-text.ts',
  'core/execution/input/text-member.ts',
];

/** Files in these folders, and all tests, may import everything, but must not form circular imports. */
const OUTSIDE =
  /^(test|bench|scripts|sdk|examples|dashboard\/test)\/|^dashboard\/[^/]+\.ts$|\.(aws\.)?test\.ts$|^[^/]+\.ts$/;

/** Maps files to their imports: paths relative to the root, or package names. */
export type Imports = ReadonlyMap<string, readonly string[]>;

/** Returns the imports of every TypeScript file tracked by git below `root`, including type imports. */
export function readImports(root: string): Imports {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.ts', '*.tsx'], {
    cwd: root,
    encoding: 'utf8',
  });
  const files = listed.split('\n').filter((file) => file !== '' && !/^examples\/|^sdk\/js\/types\//.test(file));
  return new Map(files.map((file) => [file, importsOf(file, readFileSync(join(root, file), 'utf8'))]));
}

/**
 * Returns the imports and re-exports of one file, including `import()`. For the dashboard, types of `core` are skipped.
 */
export function importsOf(file: string, text: string): string[] {
  const { module } = parseSync(file, text);
  const resolve = (request: string): string => {
    if (request.startsWith('.')) return normalize(join(dirname(file), request));
    return request.startsWith('#') ? request.slice(1) : request;
  };
  const isLeftOut = ({ entries, moduleRequest }: (typeof module.staticImports)[number]): boolean =>
    file.startsWith('dashboard/') &&
    resolve(moduleRequest.value).startsWith('core/') &&
    entries.length > 0 &&
    entries.every(({ isType }) => isType);
  const requests = [
    ...module.staticImports.filter((each) => !isLeftOut(each)).map(({ moduleRequest }) => moduleRequest.value),
    ...module.staticExports.flatMap(({ entries }) =>
      entries.flatMap(({ moduleRequest }) => moduleRequest?.value ?? []),
    ),
    // Also matches `import('./x.ts').Type`, which the parser does not list.
    ...[...text.matchAll(/\bimport\(\s*'([^']+)'/g)].map((match) => match[1]!),
  ];
  return [...new Set(requests.map(resolve))];
}

/** Returns the wing of `core`, the adapter, or else the top-level folder of a file. */
export function roomOf(file: string): string {
  const [top, wing, inner] = file.split('/');
  const hasRooms = top === 'core' || top === 'adapters';
  return hasRooms && inner !== undefined ? `${top}/${wing}` : top!;
}

/** Returns every import that violates the order, and every circular import, as sentences. */
export function problemsOf(imports: Imports): string[] {
  const problems: string[] = [];
  for (const [file, targets] of imports) {
    if (OUTSIDE.test(file)) continue;
    for (const target of targets) {
      const problem = imports.has(target) ? problemOf(file, target) : packageProblem(file, target);
      if (problem !== undefined) problems.push(`${file} imports ${target}: ${problem}.`);
    }
  }
  for (const file of reachable(imports, (start) => start.startsWith('lib/'))) {
    if (/\/(store|handlers|deps)\.ts$/.test(file)) problems.push(`lib reaches ${file}: synth pulls no runtime code.`);
  }
  for (const circle of circlesOf(imports)) problems.push(`These files import each other: ${circle.join(', ')}.`);
  return problems;
}

function problemOf(file: string, target: string): string | undefined {
  const [from, to] = [file.split('/')[0]!, target.split('/')[0]!];
  if (/^(test|bench)\/|\.test\.ts$/.test(target)) return 'tests are not part of the product';
  if (from !== to && FOLDERS[from] && !FOLDERS[from].includes(to)) {
    return `${from} may import ${FOLDERS[from].join(', ') || 'nothing of ours outside'}`;
  }
  if (from === 'dashboard' && to === 'core' && !BROWSER_SAFE.includes(target)) {
    return 'the dashboard loads types of core, and what BROWSER_SAFE lists';
  }
  if (/(^|\/)handlers\.ts$/.test(target) && !/^(core\/api|functions|local)\//.test(file)) {
    return 'handlers are for the table of handlers only; move what both need into a file of its own';
  }
  if (/\/routes\.ts$/.test(file) && /\/(store|handlers|deps)\.ts$/.test(target)) return 'rows of routes are data';
  if (from !== 'core' || to !== 'core') return undefined;
  const [here, there] = [roomOf(file).slice('core/'.length), roomOf(target).slice('core/'.length)];
  const [low, high] = [WINGS.indexOf(here as never), WINGS.indexOf(there as never)];
  if (low < 0) return `core/${here} is not a wing`;
  if (high > low) return `the wing ${there} stands above ${here}`;
  const areStrangers = here !== there && STRANGERS.includes(here) && STRANGERS.includes(there);
  return areStrangers ? `${here} and ${there} know nothing of each other` : undefined;
}

function packageProblem(file: string, name: string): string | undefined {
  const rule = PACKAGES.find((each) => each.name.test(name));
  return rule === undefined || rule.folders.some((folder) => file.startsWith(`${folder}/`))
    ? undefined
    : `only ${rule.folders.join(', ')} may`;
}

function reachable(imports: Imports, isStart: (file: string) => boolean): Set<string> {
  const seen = new Set([...imports.keys()].filter((file) => isStart(file) && !OUTSIDE.test(file)));
  for (const file of seen) for (const target of imports.get(file) ?? []) if (imports.has(target)) seen.add(target);
  return seen;
}

/** Groups of files that reach each other (Tarjan's strongly connected components of more than one file). */
export function circlesOf(imports: Imports): string[][] {
  const state = new Map<string, { index: number; low: number; isOpen: boolean }>();
  const stack: string[] = [];
  const circles: string[][] = [];
  const visit = (file: string) => {
    const own = { index: state.size, low: state.size, isOpen: true };
    state.set(file, own);
    stack.push(file);
    for (const target of imports.get(file) ?? []) {
      if (!imports.has(target)) continue;
      const other = state.get(target) ?? visit(target);
      if (other.isOpen) own.low = Math.min(own.low, other.low);
    }
    if (own.low !== own.index) return own;
    const group = stack.splice(stack.indexOf(file));
    for (const member of group) state.get(member)!.isOpen = false;
    if (group.length > 1) circles.push(group.sort());
    return own;
  };
  for (const file of imports.keys()) if (!state.has(file)) visit(file);
  return circles;
}

/** Maps each room to the rooms that it imports, without tests. */
export function arrowsOf(imports: Imports): Map<string, Set<string>> {
  const arrows = new Map<string, Set<string>>();
  for (const [file, targets] of imports) {
    if (OUTSIDE.test(file)) continue;
    const room = roomOf(file);
    const seen = arrows.get(room) ?? new Set();
    arrows.set(room, seen);
    for (const target of targets) if (imports.has(target) && roomOf(target) !== room) seen.add(roomOf(target));
  }
  return arrows;
}

if (import.meta.main) {
  const root = process.argv[2] ?? join(import.meta.dirname, '..');
  const imports = readImports(root);
  const arrows = arrowsOf(imports);
  const product = [...imports.keys()].filter((file) => !OUTSIDE.test(file));
  const rank = (room: string) => (room.startsWith('core/') ? WINGS.indexOf(room.slice(5) as never) : WINGS.length);
  const rooms = [...arrows.keys()].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  for (const room of rooms) {
    const targets = [...arrows.get(room)!].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
    const count = product.filter((file) => roomOf(file) === room).length;
    console.log(
      `${room.padEnd(16)} ${String(count).padStart(3)} files  -> ${targets.join(', ').replaceAll('core/', '') || '-'}`,
    );
  }
  const inside = [...arrows].flatMap(([from, to]) => [...to].map((target) => [from, target] as const));
  const wings = inside.filter(([from, to]) => from.startsWith('core/') && to.startsWith('core/'));
  const up = wings.filter(([from, to]) => rank(to) > rank(from));
  console.log(
    `${rooms.filter((room) => room.startsWith('core/')).length} wings of core, ${wings.length} arrows between them, ${up.length} of them up; ${circlesOf(imports).length} circles of files.`,
  );
  const problems = problemsOf(imports);
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}
