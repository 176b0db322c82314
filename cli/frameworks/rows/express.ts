import { filesWith, preferFiles, preferNames, scriptEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { startedFile } from '../package-scripts.ts';
import { nodeService } from '../web-service.ts';

const LISTEN = `import { createServer } from 'node:http';

const server = createServer(entry).listen(Number(process.env.PORT), '0.0.0.0');
server.on('error', (error) => {
  console.error(\`The app cannot listen on port \${process.env.PORT}: \${error.message}\`);
  process.exit(1);
});
`;

export const express: Framework = {
  name: 'express',
  title: 'Express',
  language: 'javascript',
  packages: ['express'],
  example: 'a file must call `app.listen(process.env.PORT)`, or export the app.',
  entriesIn(project) {
    const listening = filesWith(project, /\.[cm]?[jt]s$/, /["']express["']/, /\.listen\(/);
    if (listening.length > 0)
      return preferFiles(listening, startedFile(project) ?? '', 'server.js', 'index.js', 'app.js');
    return preferNames(scriptEntries(project, /\bexpress\(\)/, /["']express["']/), 'app', 'default');
  },
  adapt: (project, entry) => nodeService(project, entry, LISTEN),
};
