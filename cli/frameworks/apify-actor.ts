import { UsageError } from '#client/usage-error.ts';
import type { Adaptation, Language, Project } from './framework.ts';
import { adapterOf } from './node-program.ts';
import { providersOf } from './providers.ts';
import { PYTHON_ADAPTER } from './python-program.ts';
import { webService } from './web-service.ts';

/** The Actor itself is started by its own command, whatever its language. */
const NODE_PROGRAM = adapterOf({ file: 'main.js' });

/** Settings of Apify's SDKs for a run outside of Apify; variables that are set win. */
const SETTINGS: Readonly<Record<string, string>> = {
  ACTOR_ID: 'local',
  ACTOR_DEFAULT_DATASET_ID: 'default',
  ACTOR_DEFAULT_KEY_VALUE_STORE_ID: 'default',
  ACTOR_DEFAULT_REQUEST_QUEUE_ID: 'default',
  ACTOR_INPUT_KEY: 'INPUT',
  ACTOR_MEMORY_MBYTES: '512',
  APIFY_HEADLESS: '1',
  CRAWLEE_MEMORY_MBYTES: '512',
};

const ABOUT =
  'The input becomes INPUT.json in the default key-value store, and the output has the items of the default dataset and the value of OUTPUT.';

const pythonAdapter = (
  command: readonly string[],
): string => `"""Runs the Actor on the platform: reads the input as JSON from stdin, and writes the output as JSON to stdout.

${ABOUT}
\`platform init --from\` wrote this file once. Change it as you like.
"""

import json
import os
import pathlib
import subprocess
import sys
from datetime import datetime, timezone

COMMAND = ${JSON.stringify(command)}

storage = pathlib.Path("storage").resolve()
store = storage / "key_value_stores" / "default"
store.mkdir(parents=True, exist_ok=True)
(store / "INPUT.json").write_text(json.dumps(json.load(sys.stdin)), encoding="utf-8")
places = {"APIFY_LOCAL_STORAGE_DIR": str(storage), "CRAWLEE_STORAGE_DIR": str(storage)}
settings = {
    "ACTOR_RUN_ID": os.environ.get("PLATFORM_REQUEST_ID", "local"),
    "ACTOR_STARTED_AT": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
${Object.entries(SETTINGS)
  .map(([name, value]) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)},\n`)
  .join('')}}
# What the Actor prints is the log.
ended = subprocess.run(COMMAND, stdin=subprocess.DEVNULL, stdout=sys.stderr, env={**settings, **os.environ, **places})
if ended.returncode != 0:
    sys.exit(ended.returncode if ended.returncode > 0 else 1)


def read(path):
    text = path.read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:
        return text


items = sorted((storage / "datasets" / "default").glob("[0-9]*.json"))
result = {"items": [read(path) for path in items]}
for path in (store / "OUTPUT.json", store / "OUTPUT", store / "OUTPUT.txt"):
    if path.exists():
        result["output"] = read(path)
        break
json.dump(result, sys.stdout)
`;

const nodeAdapter = (
  line: string,
): string => `// Runs the Actor on the platform: reads the input as JSON from stdin, and writes the output as JSON to stdout.
// ${ABOUT}
// \`platform init --from\` wrote this file once. Change it as you like.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join, resolve } from 'node:path';

const COMMAND = ${JSON.stringify(line)};

const storage = resolve('storage');
const store = join(storage, 'key_value_stores', 'default');
mkdirSync(store, { recursive: true });
writeFileSync(join(store, 'INPUT.json'), JSON.stringify(JSON.parse(readFileSync(0, 'utf8'))));
const places = { APIFY_LOCAL_STORAGE_DIR: storage, CRAWLEE_STORAGE_DIR: storage };
const settings = {
  ACTOR_RUN_ID: process.env.PLATFORM_REQUEST_ID ?? 'local',
  ACTOR_STARTED_AT: new Date().toISOString(),
${Object.entries(SETTINGS)
  .map(([name, value]) => `  ${name}: '${value}',\n`)
  .join('')}};
const env = { ...settings, ...process.env, ...places };
// What the Actor prints is the log.
const ended = spawnSync('sh', ['-c', COMMAND], { stdio: ['ignore', 2, 2], env });
if (ended.status !== 0) process.exit(ended.status ?? 1);

function read(path) {
  const text = readFileSync(path, 'utf8');
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const dataset = join(storage, 'datasets', 'default');
const items = existsSync(dataset) ? readdirSync(dataset).filter((name) => /^\\d.*\\.json$/.test(name)).sort() : [];
const output = ['OUTPUT.json', 'OUTPUT', 'OUTPUT.txt'].map((name) => join(store, name)).find((path) => existsSync(path));
const result = { items: items.map((name) => read(join(dataset, name))), ...(output && { output: read(output) }) };
const bytes = Buffer.from(JSON.stringify(result));
for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
`;

/** How an Actor is started: words for Python, a shell line for Node. */
export type ActorCommand = { readonly python: readonly string[] } | { readonly node: string };

export function actor(project: Project, command: ActorCommand): Adaptation {
  const about = jsonOf(project, '.actor/actor.json');
  const language: Language = 'python' in command ? 'python' : 'javascript';
  const line = 'python' in command ? command.python.join(' ') : command.node;
  const secrets = { optional_secrets: ['APIFY_TOKEN'], bundle: { exclude: ['storage/**', 'sample-*'] } };
  if (about?.usesStandbyMode === true) {
    const settings = Object.entries(SETTINGS).map(([name, value]) => `${name}=${value}`);
    const ports = ['ACTOR_WEB_SERVER_PORT=$PORT', 'ACTOR_STANDBY_PORT=$PORT'];
    const started = `env ${[...ports, ...settings].join(' ')} ${line}`;
    const service = webService(project, { language, command: started });
    return { ...service, manifest: { ...service.manifest, ...secrets } };
  }
  const { input, inputSchema } = inputOf(project, about);
  return {
    manifest: {
      supported_providers: providersOf(project).supported,
      runtime: { command: 'python' in command ? `python3 ${PYTHON_ADAPTER}` : `node ${NODE_PROGRAM}` },
      ...secrets,
      ...(inputSchema && { input_schema: inputSchema }),
      output_schema: {
        type: 'object',
        required: ['items'],
        properties: {
          items: { type: 'array', description: 'The default dataset.' },
          output: { description: 'The value of OUTPUT in the default key-value store.' },
        },
      },
    },
    files:
      'python' in command
        ? { [PYTHON_ADAPTER]: pythonAdapter(command.python) }
        : { [NODE_PROGRAM]: nodeAdapter(command.node) },
    input,
  };
}

interface ApifyField {
  readonly [keyword: string]: unknown;
  readonly type?: unknown;
  readonly nullable?: unknown;
  readonly prefill?: unknown;
  readonly default?: unknown;
}

/** Keywords of JSON Schema that Apify's input schema shares; the others are about its form. */
const KEPT = /^(?:type|title|description|default|enum|minimum|maximum|minLength|maxLength|minItems|maxItems|pattern)$/;

function inputOf(project: Project, about: Record<string, unknown> | undefined) {
  const named = typeof about?.input === 'string' ? `.actor/${about.input.replace(/^\.\//, '')}` : undefined;
  const file = [
    named,
    '.actor/input_schema.json',
    '.actor/INPUT_SCHEMA.json',
    'INPUT_SCHEMA.json',
    'input_schema.json',
  ].find((path) => path !== undefined && project.textOf(path) !== undefined);
  const schema = file === undefined ? undefined : jsonOf(project, file);
  if (schema === undefined) return { input: {}, inputSchema: undefined };
  const fields = Object.entries((schema.properties ?? {}) as Record<string, ApifyField>);
  const properties = Object.fromEntries(
    fields.map(([name, field]) => {
      const kept = Object.fromEntries(Object.entries(field).filter(([keyword]) => KEPT.test(keyword)));
      return [name, field.nullable === true ? { ...kept, type: [field.type, 'null'] } : kept];
    }),
  );
  const required = Array.isArray(schema.required) ? { required: schema.required } : {};
  return {
    // As in Apify's form: what is filled in for the user, or else the default.
    input: Object.fromEntries(
      fields.flatMap(([name, { prefill, default: usual }]) =>
        prefill === undefined && usual === undefined ? [] : [[name, prefill ?? usual]],
      ),
    ),
    inputSchema: { type: 'object', properties, ...required },
  };
}

function jsonOf(project: Project, path: string): Record<string, unknown> | undefined {
  const text = project.textOf(path);
  if (text === undefined) return undefined;
  try {
    const value = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch (error) {
    throw new UsageError(`${path} is not valid JSON: ${(error as Error).message}`);
  }
}

/** Returns the command of the Actor's Dockerfile in its form as a list. */
export function dockerCommand(project: Project): string[] | undefined {
  const text = project.textOf('.actor/Dockerfile') ?? project.textOf('Dockerfile') ?? '';
  const list = /^CMD\s+(\[.*\])\s*$/m.exec(text)?.[1];
  try {
    const words: unknown = JSON.parse(list ?? 'null');
    return Array.isArray(words) && words.every((word) => typeof word === 'string') ? words : undefined;
  } catch {
    return undefined;
  }
}
