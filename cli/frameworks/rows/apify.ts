import { actor, dockerCommand } from '../apify-actor.ts';
import { filesWith, preferFiles } from '../entries.ts';
import type { Framework } from '../framework.ts';

export const apify: Framework = {
  name: 'apify',
  title: 'Apify Actor (Python)',
  language: 'python',
  packages: ['apify'],
  uses: ['langgraph', 'crewai', 'openai-agents', 'pydantic-ai', 'fastapi', 'flask'],
  example: 'there must be a package with a __main__.py, such as src/__main__.py, or a main.py that uses Actor.',
  entriesIn(project) {
    const started = dockerCommand(project)?.at(-1)?.replaceAll('.', '/');
    const packages = project.sources.filter(({ path }) => /^[^/]+\/__main__\.py$/.test(path));
    const found = packages.map(({ path }) => ({ file: path }));
    if (found.length > 0) return preferFiles(found, `${started}/__main__.py`, 'src/__main__.py');
    return preferFiles(filesWith(project, /\.py$/, /\bActor\b/, /__main__|asyncio\.run\(/), 'main.py', 'src/main.py');
  },
  adapt(project, { file }) {
    const module = /^(.*)\/__main__\.py$/.exec(file)?.[1];
    return actor(project, { python: module === undefined ? ['python3', file] : ['python3', '-m', module] });
  },
};
