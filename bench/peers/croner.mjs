import { Agent, request } from 'node:http';
import { Cron } from 'croner';

/**
 * Bare timers, each with one LLM call in the middle of every minute: `node croner.mjs LLM_URL COUNT`; prints a line
 * when
 * they are set.
 */
const [llmUrl, count] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });
const headers = {
  'content-type': 'application/json',
  'x-api-key': 'sk-ant-bench',
  'anthropic-version': '2023-06-01',
};
const body = JSON.stringify({
  model: 'claude-bench-500',
  max_tokens: 4096,
  messages: [{ role: 'user', content: 'Greet Ada.' }],
});

for (let n = 0; n < Number(count); n++) {
  new Cron('30 * * * * *', () => {
    request(`${llmUrl}/v1/messages`, { method: 'POST', agent, headers }, (answer) => answer.resume()).end(body);
  });
}
process.stdout.write('0\n');
