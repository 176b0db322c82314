import { skillFileBytes } from '#core/manifest/skill-file-bytes.ts';
import type { Skill } from './skills.ts';

/** The value of `PLATFORM_SKILLS_DIR` (`docs/interface/sandbox.md#variables`). */
const SKILLS_FOLDER = '/home/user/platform/skills';

/**
 * Builds the files of a run's skills for its sandbox (`docs/interface/skills.md#files`): a `manifest.json`, each text
 * as
 * `<org>_<name>_<version>.md`, and the skill's other files in a folder of that name.
 */
export function skillFiles(skills: readonly Skill[]): { path: string; content: Uint8Array }[] {
  if (skills.length === 0) return [];
  const manifest = skills.map(({ org, name, version, description }) => ({ org, name, version, description }));
  const files = skills.flatMap((skill) => {
    // Slugs, names and versions contain neither "/" nor "."; publishing checked the paths of the files.
    const base = `${skill.org}_${skill.name}_${skill.version}`;
    return [
      { path: `${base}.md`, content: Buffer.from(skill.text) },
      ...skill.files.map((file) => ({ path: `${base}/${file.path}`, content: skillFileBytes(file) })),
    ];
  });
  return [{ path: 'manifest.json', content: Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`) }, ...files].map(
    ({ path, content }) => ({ path: `${SKILLS_FOLDER}/${path}`, content }),
  );
}

/** Environment variables for {@link skillFiles}. */
export const skillEnvironment = (skills: readonly Skill[]): Record<string, string> =>
  skills.length === 0 ? {} : { PLATFORM_SKILLS_DIR: SKILLS_FOLDER };
