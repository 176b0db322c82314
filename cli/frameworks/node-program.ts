import type { Adaptation, Entry, Project } from './framework.ts';
import { withoutBuild } from './package-scripts.ts';
import { providersOf } from './providers.ts';
import type { Program } from './python-program.ts';

/**
 * Returns the file that the platform starts; the project's own code stays as it is. For TypeScript it is TypeScript, so
 * that the platform compiles what it imports where Node cannot run that.
 */
export const adapterOf = ({ file }: Pick<Entry, 'file'>): string =>
  /\.[cm]?tsx?$/.test(file) ? 'platform-main.mts' : 'platform-main.mjs';

/** Returns the first line of an adapter. */
export const adapterHead = (entry: Entry): string =>
  adapterOf(entry).endsWith('.mts') ? '// @ts-nocheck It is run without types.\n' : '';

/** Imports the entry of a project; `default` also finds what CommonJS exports. */
export const importOf = ({ file, name = 'default' }: Entry): string =>
  `const { ${name === 'default' ? 'default: entry' : `${name}: entry`} } = await import(${JSON.stringify(`./${file}`)});`;

const head = (title: string, entry: Entry, aliases: ReturnType<typeof providersOf>['aliases']): string =>
  `${adapterHead(entry)}// Runs ${entry.file} (${title}) on the platform: reads the input as JSON from stdin, and writes the output as JSON to stdout.
// \`platform init --from\` wrote this file once. Change it as you like.
import { readFileSync, writeSync } from 'node:fs';

const given = JSON.parse(readFileSync(0, 'utf8'));
// stdout is the output. Everything else that is printed goes to stderr, the log, which callers can follow live.
process.stdout.write = process.stderr.write.bind(process.stderr);
/** Streams a piece of the answer to callers that follow the run. */
const show = (text) => process.stderr.write(text ?? '');
/** Writes the output and ends the program, also if the framework keeps connections open. */
function end(result) {
  const bytes = Buffer.from(JSON.stringify(result ?? null));
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
  process.exit(0);
}
${aliases.map(aliasLine).join('')}
${importOf(entry)}

`;

const aliasLine = ({ name, from, without }: ReturnType<typeof providersOf>['aliases'][number]): string => {
  const value = `process.env.${from}${without === undefined ? '' : `.replace(${JSON.stringify(without)}, '')`}`;
  return `if (process.env.${from}) process.env.${name} ??= ${value};\n`;
};

/** Makes an agent of an object that a module exports. `code` sets `result`. */
export function nodeProgram(project: Project, entry: Entry, program: Program): Adaptation {
  const { supported, aliases } = providersOf(project, program.provider);
  return {
    manifest: {
      supported_providers: supported,
      runtime: { command: `node ${adapterOf(entry)}` },
      // The adapter imports the sources: what the project builds for its own server is not needed.
      ...withoutBuild(project),
      input_schema: program.inputSchema,
      ...(program.outputSchema !== undefined && { output_schema: program.outputSchema }),
    },
    files: { [adapterOf(entry)]: `${head(program.title, entry, aliases) + program.code}\nend(result);\n` },
    input: program.input,
    ...(program.notes && { notes: program.notes }),
  };
}
