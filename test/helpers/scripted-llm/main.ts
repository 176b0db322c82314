import { parseArgs } from 'node:util';
import { startScriptedLlm } from './server.ts';

/** Runs the scripted LLM as its own process: `node test/helpers/scripted-llm/main.ts [--port N] [--host H]`. */
const { values } = parseArgs({ options: { port: { type: 'string', default: '0' }, host: { type: 'string' } } });
const server = await startScriptedLlm({ port: Number(values.port), host: values.host });
console.log(server.url);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void server.close());
