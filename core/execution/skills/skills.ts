import { readSkillFiles } from '#core/agents/skills/skill-contents.ts';
import { findSkill, type SkillHome } from '#core/agents/skills/skill-refs.ts';
import { isPaid } from '#core/agents/views.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { WholeSkillFile } from '#core/manifest/definition.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { refOf, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';

/** A skill that applies to a run and that the run may use. */
export interface Skill {
  readonly org: string;
  readonly name: string;
  /** `v1`. */
  readonly version: string;
  readonly description: string;
  /** The Markdown of SKILL.md without its front matter. */
  readonly text: string;
  /** Other files of the skill besides SKILL.md; none for prompts, which cannot read them. */
  readonly files: readonly Pick<WholeSkillFile, 'path' | 'content' | 'encoding'>[];
}

/** Header values with which a caller chooses skills. */
export interface SkillHeaders {
  /** `X-Platform-Skills`: references to add, separated by commas. */
  readonly skills?: string;
  /** `X-Platform-Skills-Only`: references that replace all others; an empty value means none. */
  readonly skillsOnly?: string;
  /** `X-Platform-No-Skills`: `true` removes all. */
  readonly noSkills?: string;
}

/** Limits for one run. */
const MAX_SKILLS = 20;
const MAX_TEXT_BYTES = 1024 * 1024;
const MAX_FILE_BYTES = 16_000_000;

/** A reference to a skill and its origin. */
interface Wanted {
  readonly reference: string;
  readonly home: SkillHome;
  /** Builds the error for a reference that cannot be used. */
  readonly refuse: (problem: string) => PlatformError;
}

/**
 * Returns the skills of a run, in the order in which they apply: the agent's `default_skills`, then those of the
 * caller's
 * headers (`docs/interface/skills.md#headers`), each version once. Headers are ignored if the agent's skills are
 * locked. Reads nothing if there is no reference.
 *
 * References in headers are resolved from `caller`, the workspace that owns the run; `default_skills` from the agent's.
 *
 * Throws INVALID_INPUT for a reference in a header that the caller may not use, UNPROCESSABLE for one in
 * `default_skills`,
 * and INVALID_INPUT for more than 20 skills, 1 MB of instructions or 16 MB of files.
 */
export async function resolveSkills(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
  { agent, headers, caller }: { agent: AgentVersion; headers: SkillHeaders; caller: SkillHome },
): Promise<Skill[]> {
  const wanted = wantedSkills(agent, headers, caller);
  if (wanted.length === 0) return [];
  if (wanted.length > MAX_SKILLS) {
    throw new PlatformError(
      'INVALID_INPUT',
      `This call names ${wanted.length} skills, those of ${refOf(agent)} included; at most ${MAX_SKILLS} apply to a run.`,
    );
  }
  const found = new Map<string, AgentVersion>();
  for (const version of await Promise.all(wanted.map((each) => lookUp(deps, each, agent)))) {
    found.set(version.id, version);
  }
  const versions = [...found.values()];
  const { hasSandbox } = engineTraits(agent);
  checkSize('instructions', versions.map(textBytes), MAX_TEXT_BYTES);
  if (hasSandbox) checkSize('files', versions.map(fileBytes), MAX_FILE_BYTES);
  return Promise.all(
    versions.map(async (version) => toSkill(version, hasSandbox ? await readSkillFiles(deps, version) : [])),
  );
}

const textBytes = ({ definition }: AgentVersion): number => Buffer.byteLength(definition.prompt ?? '');
const fileBytes = ({ definition }: AgentVersion): number =>
  definition.skill_files.reduce((sum, { size }) => sum + size, 0);

function checkSize(what: string, sizes: readonly number[], max: number): void {
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  if (bytes <= max) return;
  throw new PlatformError(
    'INVALID_INPUT',
    `The ${what} of this call's skills have ${bytes} bytes in all; at most ${max} apply to a run.`,
  );
}

function wantedSkills(agent: AgentVersion, headers: SkillHeaders, caller: SkillHome): Wanted[] {
  const { default_skills, skills_locked } = agent.definition;
  const home = { workspaceId: agent.workspaceId, slug: agent.orgSlug };
  const defaults = default_skills.map((reference): Wanted => {
    const refuse = (problem: string) =>
      new PlatformError('UNPROCESSABLE', `${refOf(agent)} cannot run: ${reference} in its default_skills ${problem}.`, {
        hint: 'Its owners correct default_skills with PATCH /agents/{id}.',
      });
    return { reference, home, refuse };
  });
  if (skills_locked || isTrue(headers.noSkills)) return skills_locked ? defaults : [];
  return headers.skillsOnly === undefined
    ? [...defaults, ...fromHeader('X-Platform-Skills', headers.skills ?? '', caller)]
    : fromHeader('X-Platform-Skills-Only', headers.skillsOnly, caller);
}

function fromHeader(name: string, value: string, home: SkillHome): Wanted[] {
  return value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map((reference) => ({
      reference,
      home,
      refuse: (problem) => new PlatformError('INVALID_INPUT', `${name}: "${reference.slice(0, 120)}" ${problem}.`),
    }));
}

/** Throws INVALID_INPUT for other words: a mistyped `true` would otherwise silently apply unwanted skills. */
function isTrue(value: string | undefined): boolean {
  const word = value?.trim().toLowerCase() ?? '';
  if (!['', 'true', 'false'].includes(word)) {
    throw new PlatformError(
      'INVALID_INPUT',
      `X-Platform-No-Skills is "${word.slice(0, 40)}"; it may be true or false.`,
    );
  }
  return word === 'true';
}

async function lookUp(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
  { reference, home, refuse }: Wanted,
  agent: AgentVersion,
): Promise<AgentVersion> {
  const result = await findSkill(deps, reference, home);
  if ('problem' in result) throw refuse(result.problem);
  const { skill } = result;
  // In a sandbox, the skill's files could be read; a prompt shows its text only to the model.
  const inSandbox = engineTraits(agent).hasSandbox;
  const isOffered = skill.definition.allow_local_download && !isPaid(skill);
  if (inSandbox && !isOffered && skill.workspaceId !== home.workspaceId) {
    throw refuse('may only be used by prompt agents outside its workspace: its author does not offer the source');
  }
  return skill;
}

const toSkill = (version: AgentVersion, files: readonly WholeSkillFile[]): Skill => ({
  org: version.orgSlug,
  name: version.name,
  version: versionName(version.version),
  description: version.definition.description,
  text: version.definition.prompt ?? '',
  files: files.map(({ path, content, encoding }) => ({ path, content, ...(encoding && { encoding }) })),
});
