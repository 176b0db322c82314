import { strToU8, zipSync } from 'fflate';
import { call } from '../../api/client.ts';
import { EXAMPLE } from './example.ts';

const PROGRAM = `// An agent is a program that reads its input as JSON from stdin, and writes its output as JSON to stdout.
let text = '';
process.stdin.on('data', (piece) => (text += piece));
process.stdin.on('end', () => {
  const { name } = JSON.parse(text);
  console.error('Greeting', name);
  console.log(JSON.stringify({ greeting: \`Hello, \${name}!\` }));
});
`;

/** Publishes the example agent in a workspace. Throws ApiError. */
export async function publishExample(workspaceId: string): Promise<void> {
  const { agent } = await call(
    'createAgent',
    {
      body: {
        name: EXAMPLE,
        type: 'tool',
        description: 'Greets the person you name. It is the example of the checklist.',
        runtime: { command: 'node main.js' },
        input_schema: {
          type: 'object',
          required: ['name'],
          properties: { name: { type: 'string', title: 'Name', description: 'Who is greeted', default: 'world' } },
        },
        output_schema: { type: 'object', properties: { greeting: { type: 'string' } } },
        required_secrets: [],
      },
    },
    { workspaceId },
  );
  const form = new FormData();
  const zip = zipSync({ 'main.js': strToU8(PROGRAM) }) as Uint8Array<ArrayBuffer>;
  form.set('file', new Blob([zip], { type: 'application/zip' }), 'hello.zip');
  await call('uploadBundle', { params: { id: agent.id }, body: form }, { workspaceId });
}
