import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';
import { EXIT, UsageError } from '#client/usage-error.ts';
import { expandBundle } from '#core/manifest/bundle/bundle.ts';
import { detectEntrypoint } from '#core/manifest/bundle/entrypoint.ts';
import { pathProblem } from '#core/manifest/bundle/safe-path.ts';
import type { ExecutionEngine } from '#core/manifest/definition.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import { fileRulesOf } from '#core/manifest/file-rules.ts';
import { checkDefinition } from '#core/manifest/parsing/manifest.ts';
import { manifestOf as writtenOf } from '#core/manifest/publish-body.ts';
import { checkSkillFiles, type GivenSkillFile } from '#core/manifest/skill.ts';
import { skillFileBytes } from '#core/manifest/skill-file-bytes.ts';
import { type AgentReference, ownVersions, readReference } from '../shared/agent-reference.ts';
import type { Cli } from '../shared/cli.ts';

export interface SourceFile {
  readonly content: Uint8Array;
  readonly executable: boolean;
}

/** A published version as a folder that can be published again. `agent-folder.ts` is the reverse. */
export interface AgentSource {
  /** `org/agent@v2`. */
  readonly agent: string;
  readonly type: string;
  /** Content of `agent.json`; empty for a skill. */
  readonly manifest: Readonly<Record<string, unknown>>;
  /** All other files by path. Paths stay inside the folder on every system. */
  readonly files: ReadonlyMap<string, SourceFile>;
  /** Paths of the files in its bundle; empty without code. */
  readonly packed: readonly string[];
  /** Warnings about files that the folder cannot contain. */
  readonly warnings: readonly string[];
}

/** The required members of a version; records of foreign agents lack some of the others. */
type Version = { readonly [member: string]: unknown } & {
  readonly id: string;
  readonly org_slug: string;
  readonly name: string;
  readonly version: string;
  readonly type: string;
  readonly execution_engine: ExecutionEngine | null;
};

/**
 * Reads a version of the own workspace, or a public one with downloadable source. Throws UsageError and the errors of
 * its requests.
 */
export async function readSource(cli: Cli, text: string): Promise<AgentSource> {
  const reference = await readReference(cli, text);
  const isOwn = reference.org === (await cli.org()).slug;
  const version = isOwn ? ((await ownVersions(cli, text))[0] as Version) : await foreignVersion(cli, reference);
  const agent = `${version.org_slug}/${version.name}@${version.version}`;
  const { type } = version;
  if (type === 'skill') {
    const files = skillFiles(agent, { ...version, skill_files: await contentsOf(cli, version, isOwn) });
    return { agent, type, manifest: {}, files, packed: [], warnings: [] };
  }
  const zip = await bundleOf(cli, version, isOwn);
  const code = new Map<string, SourceFile>();
  if (zip !== undefined) {
    await expandBundle(zip, {
      onFolder() {},
      async onFile({ path, executable }, content) {
        code.set(path, { content: Buffer.concat(await Array.fromAsync(content)), executable });
      },
    });
  }
  const { files, packed, warnings } = withTexts(version, code);
  const suites = await suitesOf(cli, version, isOwn);
  return {
    ...{ agent, type, packed, warnings, manifest: manifestOf(version, code) },
    files: new Map([...files, ...suites]),
  };
}

/** Returns the suites of a version with a gate by path. Those whose name is no path in the folder are left out. */
async function suitesOf(cli: Cli, version: Version, isOwn: boolean): Promise<ReadonlyMap<string, SourceFile>> {
  if ((version.evals as { readonly gate?: boolean } | null)?.gate !== true) return new Map();
  const client = await cli.client();
  const { id, org_slug: org, name: agent } = version;
  const answer: unknown = isOwn
    ? await client.downloadOwnEvalFiles({ params: { id } })
    : await client.downloadEvalFiles({ params: { org, agent, version: version.version } });
  const found = Object.entries(answer as Record<string, string>).filter(([path]) => pathProblem(path) === undefined);
  return new Map(found.map(([path, text]) => [path, textFile(text)]));
}

async function foreignVersion(cli: Cli, params: AgentReference): Promise<Version> {
  const client = await cli.client();
  const download = await client.downloadAgent({ params: { ...params } });
  const shown = await client.getPublicAgent({ params: { ...params, version: download.version } });
  const { org_slug } = shown;
  return {
    ...download,
    ...shown,
    default_skills: shown.default_skills.map((skill) => (skill.includes('/') ? skill : `${org_slug}/${skill}`)),
    entrypoint: download.entrypoint,
    has_bundle: download.has_bundle,
    // The owner of the copy decides whether to offer its source.
    allow_local_download: undefined,
  };
}

/** Returns the files of a skill with their contents, which records of large ones lack. */
async function contentsOf(cli: Cli, version: Version, isOwn: boolean): Promise<readonly GivenSkillFile[]> {
  const files = (version.skill_files ?? []) as readonly Partial<GivenSkillFile>[];
  if (files.every(({ content }) => content !== undefined)) return files as GivenSkillFile[];
  const client = await cli.client();
  const { id, org_slug: org, name: agent } = version;
  // The platform streams this JSON, so that the type of the answer does not say that the client parses it.
  const answer: unknown = isOwn
    ? await client.downloadOwnSkillFiles({ params: { id } })
    : await client.downloadSkillFiles({ params: { org, agent, version: version.version } });
  return answer as GivenSkillFile[];
}

async function bundleOf(cli: Cli, version: Version, isOwn: boolean): Promise<Uint8Array | undefined> {
  if (!(isOwn ? version.code_bundle_url : version.has_bundle)) return undefined;
  const client = await cli.client();
  const { id, org_slug: org, name: agent } = version;
  const answer = isOwn
    ? await client.downloadOwnBundle({ params: { id } })
    : await client.downloadBundle({ params: { org, agent, version: version.version } });
  return new Uint8Array(await (answer as Response).arrayBuffer());
}

const textFile = (text: string): SourceFile => ({ content: Buffer.from(text), executable: false });
const jsonText = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

function skillFiles(agent: string, version: Version): Map<string, SourceFile> {
  const { name, description, prompt } = version;
  const { files, errors } = checkSkillFiles(version.skill_files as GivenSkillFile[], `skill_files of ${agent}`);
  if (errors.length > 0) {
    throw new UsageError(errors.map(({ field, message }) => `${field} ${message}`).join('; '), {
      exitCode: EXIT.failed,
    });
  }
  const text = `---\n${stringify({ name, description }, { lineWidth: 0 })}---\n\n${prompt}\n`;
  return new Map([
    ...files.map(({ path, ...file }) => [path, { content: skillFileBytes(file), executable: false }] as const),
    ['SKILL.md', textFile(text)],
  ]);
}

/** Files with a different meaning in a folder than in a bundle. */
const OWN_FILES = ['agent.json', 'skill.md'];

function withTexts(
  version: Version,
  code: ReadonlyMap<string, SourceFile>,
): Pick<AgentSource, 'files' | 'packed' | 'warnings'> {
  const files = new Map([...code].filter(([path]) => !OWN_FILES.includes(path.toLowerCase())));
  const packed = [...files.keys()];
  const warnings = [...code.keys()]
    .filter((path) => path.toLowerCase() === 'skill.md')
    .map((path) => `${path} in the bundle was skipped: it would turn the folder into a skill.`);
  if (!traitsOf(version.execution_engine).hasProgram) files.set('prompt.md', textFile(String(version.prompt ?? '')));
  const schemas = {
    ...(version.input_schema !== null && { input: version.input_schema }),
    ...(version.output_schema !== null && { output: version.output_schema }),
  };
  if (Object.keys(schemas).length > 0 && !holds(files.get('schema.json'), schemas)) {
    if (files.has('schema.json')) warnings.push('schema.json in the bundle was replaced by the published schemas.');
    files.set('schema.json', textFile(jsonText(schemas)));
  }
  return { files, packed, warnings };
}

function holds(file: SourceFile | undefined, schemas: object): boolean {
  if (file === undefined) return false;
  try {
    const { input, output } = JSON.parse(Buffer.from(file.content).toString());
    return isDeepStrictEqual(JSON.parse(JSON.stringify({ input, output })), schemas);
  } catch {
    return false;
  }
}

/** Returns the manifest without the defaults that publishing adds. */
function manifestOf(version: Version, code: ReadonlyMap<string, SourceFile>): Record<string, unknown> {
  const given = writtenOf(version);
  if (traitsOf(version.execution_engine).hasProgram && version.prompt != null) given.prompt = version.prompt;
  const { input_schema, output_schema, prompt } = version;
  const whole = definitionOf({ ...given, input_schema, output_schema, prompt });
  if (whole === undefined) return given;
  const found = [...code.keys()].map((path) => ({ path, size: 0, executable: false }));
  const kept = { ...given };
  for (const name of Object.keys(given).filter((member) => member !== 'type')) {
    const { [name]: dropped, ...rest } = kept;
    const without = definitionOf({ ...rest, input_schema, output_schema, prompt });
    if (without === undefined) continue;
    const isFound = name === 'entrypoint' && code.size > 0 && entrypointOf(found, without) === dropped;
    if (isFound || isDeepStrictEqual(without, definitionOf({ ...kept, input_schema, output_schema, prompt }))) {
      delete kept[name];
    }
  }
  return kept;
}

function definitionOf(body: Record<string, unknown>) {
  const { definition } = checkDefinition(body);
  if (definition === undefined) return undefined;
  const { accepts_files: _, accept: __, max_files: ___, ...rest } = definition;
  return { ...rest, files: fileRulesOf(definition) };
}

function entrypointOf(files: Parameters<typeof detectEntrypoint>[0]['files'], definition: { runtime: unknown }) {
  try {
    return detectEntrypoint({ files }, definition as Parameters<typeof detectEntrypoint>[1]);
  } catch {
    return undefined;
  }
}
