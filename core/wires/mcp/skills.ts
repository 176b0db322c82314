import { createHash } from 'node:crypto';
import { isMember } from '#core/agents/access.ts';
import { listCurrent } from '#core/agents/current.ts';
import { readSkillFiles } from '#core/agents/skills/skill-contents.ts';
import { resolveAgent } from '#core/agents/store.ts';
import { isPaid } from '#core/agents/views.ts';
import type { Caller } from '#core/base/caller.ts';
import { isPlatformError } from '#core/base/errors.ts';
import { fileTypeOf } from '#core/base/file-type.ts';
import { versionName } from '#core/manifest/references.ts';
import { skillFileBytes } from '#core/manifest/skill-file-bytes.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { MCP_CODES, McpError, type McpMethod, type McpObject } from '#core/ports/mcp-endpoint.ts';

/*
 * Skills of MCP (extension `io.modelcontextprotocol/skills` 0.1.0, SEP-2640): each version of a skill is a folder of resources,
 * `skill://<org>/<version>/<name>/`, whose contents never change (`docs/interface/mcp.md#skills`).
 */

export const SKILLS = 'io.modelcontextprotocol/skills';

/** A list changes when a skill is published. */
const CACHE = { ttlMs: 60_000, cacheScope: 'private' } as const;
const PAGE = 50;
const TEXT = 'SKILL.md';
const MARKDOWN = 'text/markdown';
const URI = /^skill:\/\/([a-z0-9-]{1,64})\/(v\d{1,9})\/([a-z0-9-]{1,64})\/(.{1,2000})$/s;
const TEMPLATE = {
  uriTemplate: 'skill://{org}/{version}/{skill}/{+path}',
  name: 'skill-files',
  title: 'Files of skills',
  description: 'SKILL.md and the other files of one version of a skill.',
};
/** The rule of Agent Skills for names; ours is wider. */
const ALLOWED_NAME = /^[\da-z]+(?:-[\da-z]+)*$/;

type SkillDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config'>;

/**
 * Returns the methods that offer the skills that a caller may read: those of its workspace are listed, public ones are found by
 * their address.
 */
export function skillMethods(deps: SkillDeps, caller: Caller): Readonly<Record<string, McpMethod>> {
  const find = (uri: unknown) => findFile(deps, caller, uri);
  return {
    'skills/list': async ({ cursor }) => {
      const { skills, next } = await listSkills(deps, caller, cursor);
      return { skills: skills.map(entryOf), ...next, ...CACHE };
    },
    'skills/get': async ({ uri }) => {
      const found = await find(uri);
      if (found?.path === TEXT) return { skill: entryOf(found.skill), ...CACHE };
      throw new McpError(MCP_CODES.invalidParams, `There is no skill at ${shown(uri)}`);
    },
    'resources/list': async ({ cursor }) => {
      const { skills, next } = await listSkills(deps, caller, cursor);
      const resources = skills.map((skill) => ({
        uri: folderOf(skill) + TEXT,
        name: skill.name,
        description: skill.definition.description,
        mimeType: MARKDOWN,
      }));
      return { resources, ...next, ...CACHE };
    },
    'resources/templates/list': async () => ({ resourceTemplates: [TEMPLATE], ...CACHE }),
    'resources/read': async ({ uri }) => {
      const found = await find(uri);
      const contents = found && (await contentsOf(deps, found));
      if (contents === undefined) {
        throw new McpError(MCP_CODES.invalidParams, `There is no resource ${shown(uri)}`, { uri: shown(uri) });
      }
      return { contents: [{ uri, ...contents }], ...CACHE };
    },
  };
}

const shown = (uri: unknown): string => String(uri).slice(0, 2000);

interface FoundFile {
  readonly skill: AgentVersion;
  readonly path: string;
}

async function listSkills(deps: SkillDeps, { workspace }: Caller, cursor: unknown) {
  const place = { limit: PAGE, cursor: cursor === undefined ? undefined : String(cursor) };
  const { agents, nextCursor } = await listCurrent(deps, workspace.id, place).catch((error: unknown) => {
    throw isPlatformError(error) ? new McpError(MCP_CODES.invalidParams, error.message) : error;
  });
  const skills = agents
    .map(({ version }) => version)
    .filter(({ definition, name }) => definition.type === 'skill' && ALLOWED_NAME.test(name));
  return { skills, next: nextCursor === undefined ? {} : { nextCursor } };
}

/** Finds nothing for what the caller may not read, as for what there is not. */
async function findFile(deps: SkillDeps, caller: Caller, uri: unknown): Promise<FoundFile | undefined> {
  const [, org, version, name, encoded] = (typeof uri === 'string' && URI.exec(uri)) || [];
  if (org === undefined) return undefined;
  const skill = await resolveAgent(deps, org, name!, version!);
  const path = decoded(encoded!);
  if (skill === undefined || path === undefined || skill.definition.type !== 'skill') return undefined;
  const { is_public, allow_local_download } = skill.definition;
  // The rules of a download.
  const isOpen = is_public && allow_local_download && !isPaid(skill);
  return isOpen || (await isMember(deps, caller, skill.workspaceId)) ? { skill, path } : undefined;
}

function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

async function contentsOf(deps: SkillDeps, { skill, path }: FoundFile): Promise<McpObject | undefined> {
  if (path === TEXT) return { text: textOf(skill), mimeType: MARKDOWN };
  const file = (await readSkillFiles(deps, skill)).find((each) => each.path === path);
  if (file === undefined) return undefined;
  if (file.encoding === undefined) return { text: file.content, mimeType: 'text/plain' };
  return { blob: file.content, mimeType: fileTypeOf(skillFileBytes(file)).mediaType };
}

/** What a client loads first: the front matter, and all files with their hashes, so that it can tell what it has. */
function entryOf(skill: AgentVersion): McpObject {
  const folder = folderOf(skill);
  const text = Buffer.from(textOf(skill));
  const others = skill.definition.skill_files.filter(({ path }) => path !== TEXT);
  const files = others.map((file) => ({
    uri: folder + file.path.split('/').map(encodeURIComponent).join('/'),
    // Large and binary files are stored elsewhere, with their hashes here.
    digest: `sha256:${file.sha256 ?? sha256(Buffer.from(file.content!))}`,
    size: file.size,
  }));
  return {
    uri: folder + TEXT,
    frontmatter: frontMatterOf(skill),
    resources: [{ uri: folder + TEXT, digest: `sha256:${sha256(text)}`, size: text.byteLength }, ...files],
  };
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const folderOf = ({ orgSlug, version, name }: AgentVersion): string =>
  `skill://${orgSlug}/${versionName(version)}/${name}/`;

const frontMatterOf = ({ name, definition }: AgentVersion) => ({ name, description: definition.description });

/** Builds the SKILL.md: a publish stores its parts. */
function textOf(skill: AgentVersion): string {
  const { name, description } = frontMatterOf(skill);
  // A string of JSON is one of YAML.
  const head = `---\nname: ${JSON.stringify(name)}\ndescription: ${JSON.stringify(description)}\n---\n\n`;
  return `${head}${skill.definition.prompt ?? ''}\n`;
}
