import type { Project } from './framework.ts';

/** Returns the shell line of a script of `package.json`, with `npm run NAME` replaced by that script's line. */
export function scriptLine({ packageJson }: Project, name: string): string | undefined {
  const line = packageJson?.scripts[name];
  const other = /^npm (?:run|start) ?([\w:-]*)$/.exec(line ?? '')?.[1];
  return other === undefined || other === name ? line : (packageJson?.scripts[other] ?? line);
}

/** Returns the file that `npm start` runs with Node, if the project has it. */
export function startedFile(project: Project): string | undefined {
  const file = /\b(?:node|tsx)\s(?:.*\s)?(?:\.\/)?([\w./-]+\.[cm]?[jt]s)\b/.exec(
    scriptLine(project, 'start') ?? '',
  )?.[1];
  return file !== undefined && project.has(file) ? file : undefined;
}

/** Says that nothing is built, for a project that has a build whose result is not used: otherwise the platform runs it. */
export const withoutBuild = ({ packageJson }: Project): { readonly build?: readonly string[] } =>
  packageJson?.scripts.build === undefined ? {} : { build: [] };

/** Returns how an app starts: by what its build writes, if `npm start` does so, and else by its source. */
export function startOf(
  project: Project,
  file: string,
): { readonly command: string; readonly build?: readonly string[] } {
  const line = scriptLine(project, 'start') ?? '';
  const started = /^node\s+(?:\.\/)?([\w./-]+)$/.exec(line)?.[1];
  const isBuilt = project.packageJson?.scripts.build !== undefined && /^(?:dist|build|out|lib)\//.test(started ?? '');
  return isBuilt && !project.has(started!) ? { command: line } : { command: `node ${file}`, ...withoutBuild(project) };
}
