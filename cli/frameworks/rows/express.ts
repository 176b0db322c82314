import { filesWith, preferFiles, preferNames, scriptEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { adapterHead, adapterOf, importOf } from '../node-program.ts';
import { startedFile, startOf, withoutBuild } from '../package-scripts.ts';
import { portNote, webService } from '../web-service.ts';

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
  adapt(project, entry) {
    if (entry.name === undefined) {
      return webService(project, {
        language: 'javascript',
        ...startOf(project, entry.file),
        notes: [portNote(project, entry.file)],
      });
    }
    const text = `${adapterHead(entry)}// Serves ${entry.file} at the port of the platform. \`platform init --from\` wrote this file once.\n${importOf(entry)}\n${LISTEN}`;
    return webService(project, {
      language: 'javascript',
      command: `node ${adapterOf(entry)}`,
      files: { [adapterOf(entry)]: text },
      ...withoutBuild(project),
    });
  },
};
