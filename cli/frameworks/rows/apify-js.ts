import { actor } from '../apify-actor.ts';
import { filesWith, preferFiles } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { scriptLine } from '../package-scripts.ts';

export const apifyJs: Framework = {
  name: 'apify-js',
  title: 'Apify Actor (JavaScript)',
  language: 'javascript',
  packages: ['apify', 'crawlee'],
  uses: ['langgraph-js', 'openai-agents-js', 'ai-sdk', 'mastra', 'express', 'hono'],
  example: 'package.json must have a script start, or there must be a src/main.js that uses Actor.',
  entriesIn(project) {
    if (project.packageJson?.scripts.start !== undefined) return [{ file: 'package.json' }];
    return preferFiles(
      filesWith(project, /\.[cm]?[jt]s$/, /\bActor\.(?:init|main)\(/),
      'src/main.js',
      'src/main.ts',
      'main.js',
    );
  },
  adapt(project, { file }) {
    // Templates in TypeScript start their sources by `tsx`, which a run does not have, and by start:prod what was built.
    const line = scriptLine(project, 'start:prod') ?? scriptLine(project, 'start');
    return actor(project, { node: file === 'package.json' && line !== undefined ? line : `node ${file}` });
  },
};
