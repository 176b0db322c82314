import { createHash } from 'node:crypto';
import type { AgentDefinition, SkillFile, WholeSkillFile } from '#core/manifest/definition.ts';
import { skillFileBytes } from '#core/manifest/skill-file-bytes.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getLarge } from '#core/ports/large-value.ts';

/**
 * Files of skills. Small texts are in the definition, which every list and call reads. The contents of the files are in
 * one blob beside it, as the JSON of {@link WholeSkillFile}s, if one of them is binary or all have more bytes than this.
 */
const MAX_IN_DEFINITION = 500_000;

/** A larger blob is left out of buffered answers: Lambda returns at most 6 MB. */
const MAX_IN_ANSWER = 4_000_000;

export const skillFilesKey = (id: string): string => `definitions/${id}.files.json`;

/**
 * Returns a definition as it is stored, and the content of the blob beside it; `undefined` without one. A definition
 * that was read from the storage is returned unchanged.
 */
export function splitContents(definition: AgentDefinition): {
  readonly definition: AgentDefinition;
  readonly contents?: string;
} {
  const files = (definition.skill_files ?? []).filter(isWhole);
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (bytes <= MAX_IN_DEFINITION && files.every(({ encoding }) => encoding === undefined)) return { definition };
  return { definition: { ...definition, skill_files: files.map(withHash) }, contents: JSON.stringify(files) };
}

const isWhole = (file: SkillFile): file is WholeSkillFile => file.content !== undefined;

function withHash({ content, ...file }: WholeSkillFile): SkillFile {
  return {
    ...file,
    sha256: createHash('sha256')
      .update(skillFileBytes({ content, ...file }))
      .digest('hex'),
  };
}

/** Reads the files of a skill with their contents; none for other agents. */
export async function readSkillFiles(deps: Pick<Deps, 'blobs'>, version: AgentVersion): Promise<WholeSkillFile[]> {
  if (version.contentsBytes === undefined) return (version.definition.skill_files ?? []).filter(isWhole);
  const text = await getLarge(deps, skillFilesKey(version.id));
  if (text === undefined) throw new Error(`the files of the skill version ${version.id} are missing`);
  return JSON.parse(text) as WholeSkillFile[];
}

/**
 * Streams the JSON of a skill's files, without parsing it. `undefined` for other agents.
 */
export async function streamSkillFiles(
  { blobs }: Pick<Deps, 'blobs'>,
  { id, definition, contentsBytes }: AgentVersion,
): Promise<Uint8Array | AsyncIterable<Uint8Array> | undefined> {
  if (definition.type !== 'skill') return undefined;
  return contentsBytes === undefined
    ? Buffer.from(JSON.stringify(definition.skill_files))
    : blobs.stream(skillFilesKey(id));
}

/** Returns a version with the contents of its files if an answer can hold them, for views of a single version. */
export async function withContents(deps: Pick<Deps, 'blobs'>, version: AgentVersion): Promise<AgentVersion> {
  if ((version.contentsBytes ?? MAX_IN_ANSWER + 1) > MAX_IN_ANSWER) return version;
  const skill_files = await readSkillFiles(deps, version);
  return { ...version, definition: { ...version.definition, skill_files } };
}
