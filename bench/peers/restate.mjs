import * as restate from '@restatedev/restate-sdk';

/** A durable Restate service with one LLM call: `node restate.mjs LLM_URL PORT`. */
const [llmUrl, port] = process.argv.slice(2);

const greeter = restate.service({
  name: 'greeter',
  handlers: {
    greet: async (ctx, { name }) => {
      const text = await ctx.run('llm', async () => {
        const response = await fetch(`${llmUrl}/v1/messages`, {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            'x-api-key': 'sk-ant-bench',
            'anthropic-version': '2023-06-01',
          },
          body: JSON.stringify({
            model: 'claude-bench',
            max_tokens: 4096,
            messages: [{ role: 'user', content: `Greet ${name}.` }],
          }),
        });
        return (await response.json()).content[0].text;
      });
      return JSON.parse(text);
    },
  },
});
restate.serve({ services: [greeter], port: Number(port) });
