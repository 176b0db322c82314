import type { Client } from '#core/api/client.ts';
import { operations } from '../operation.ts';
import type { Configure } from '../shared/cli.ts';
import { readJson } from '../shared/input.ts';
import { secretArgument } from '../shared/secret-argument.ts';

const providers: Configure = (command, cli) => {
  operations([
    {
      name: 'list',
      operation: 'listProviders',
      list: 'providers',
      columns: ['name', 'base_url', 'has_key', 'default_model', 'updated_at'],
      example: 'providers list',
    },
    {
      name: 'delete',
      operation: 'deleteProvider',
      confirm: 'Delete the provider',
      example: 'providers delete groq --yes',
    },
  ])(command, cli);
  command
    .command('set')
    .description('Set up a model provider, or replace it; its key is read from stdin or prompted for')
    .argument('<name>', 'openrouter, deepseek, groq, mistral, together, vllm, lm-studio, or a name of your own')
    .argument('[key]', 'Only -, for stdin: other users of the machine can see arguments')
    .option('--base-url <address>', 'Address of its API, without /chat/completions; known for most of these names')
    .option('--default-model <model>', 'Model to ask if neither the caller nor the agent names one')
    .option('--prices <json>', 'US dollars per million tokens, by model id; JSON, @file, or - for stdin')
    .option('--no-key', 'The provider needs no key')
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform providers set groq\n  $ platform providers set vllm --base-url https://models.example.com/v1 --no-key',
    )
    .action(async (name, given, { baseUrl, defaultModel, prices, key }) => {
      const api_key = key
        ? await secretArgument(cli, { given, label: `Key of ${name}`, command: `platform providers set ${name}` })
        : undefined;
      const params = { workspace_id: await cli.workspaceId(), provider: name };
      const body = {
        ...(baseUrl !== undefined && { base_url: baseUrl }),
        ...(api_key !== undefined && { api_key }),
        ...(defaultModel !== undefined && { default_model: defaultModel }),
        ...(prices !== undefined && { prices: (await readJson(cli.host, prices, '--prices')) as Prices }),
      };
      const answer = await (await cli.client()).putProvider({ params, body });
      cli.output.result(answer, ({ created, provider }) => `${provider.provider} ${created ? 'set up' : 'replaced'}`);
    });
};

type Prices = Parameters<Client['putProvider']>[0]['body']['prices'];

export default providers;
