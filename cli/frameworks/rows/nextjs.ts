import type { Framework } from '../framework.ts';
import { webService } from '../web-service.ts';

export const nextjs: Framework = {
  name: 'nextjs',
  title: 'Next.js',
  language: 'javascript',
  packages: ['next'],
  uses: ['ai-sdk', 'hono'],
  example: 'there must be a folder app, pages, src/app or src/pages.',
  entriesIn: ({ sources }) =>
    sources.some(({ path }) => /^(?:src\/)?(?:app|pages)\/.*\.[jt]sx?$/.test(path)) ? [{ file: 'package.json' }] : [],
  adapt: (project) =>
    webService(project, {
      language: 'javascript',
      // The address is the one of the service, and the cache of images lies in the working folder.
      command: 'next start --hostname 0.0.0.0 --port $PORT',
      build: ['npx next build'],
    }),
};
