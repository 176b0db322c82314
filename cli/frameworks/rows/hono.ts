import { filesWith, preferFiles, preferNames, scriptEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { startedFile } from '../package-scripts.ts';
import { nodeService } from '../web-service.ts';

/** A server of Node for apps that are made for others, which call `app.fetch` themselves. */
const SERVE = `import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const server = createServer(async (incoming, outgoing) => {
  try {
    const { method, url, headers } = incoming;
    const body = method === 'GET' || method === 'HEAD' ? undefined : Readable.toWeb(incoming);
    const given = Object.entries(headers).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
    const request = new Request(\`http://\${headers.host}\${url}\`, { method, headers: given, body, duplex: 'half' });
    const answer = await entry.fetch(request, process.env);
    outgoing.writeHead(answer.status, [...answer.headers].flat());
    if (answer.body) await pipeline(Readable.fromWeb(answer.body), outgoing);
    else outgoing.end();
  } catch (error) {
    console.error(error);
    if (outgoing.headersSent) outgoing.destroy();
    else outgoing.writeHead(500).end();
  }
}).listen(Number(process.env.PORT), '0.0.0.0');
server.on('error', (error) => {
  console.error(\`The app cannot listen on port \${process.env.PORT}: \${error.message}\`);
  process.exit(1);
});
`;

export const hono: Framework = {
  name: 'hono',
  title: 'Hono',
  language: 'javascript',
  packages: ['hono'],
  example: 'a file must call `serve(app)`, or export the app, such as `export default app`.',
  entriesIn(project) {
    const serving = filesWith(project, /\.[cm]?[jt]sx?$/, /["']@hono\/node-server["']/, /\bserve\(/);
    if (serving.length > 0) return preferFiles(serving, startedFile(project) ?? '', 'src/index.ts', 'index.ts');
    const apps = scriptEntries(
      project,
      /\bnew (?:Hono|OpenAPIHono)(?:<[^>]*>)?\(/,
      /["'](?:hono|@hono\/zod-openapi)["']/,
    );
    return preferFiles(
      preferNames(apps, 'default', 'app'),
      'src/index.ts',
      'src/index.tsx',
      'index.ts',
      'src/index.js',
    );
  },
  adapt: (project, entry) => nodeService(project, entry, SERVE),
};
