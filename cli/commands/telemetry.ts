import { operations } from '../operation.ts';
import type { Configure } from '../shared/cli.ts';
import { secretArgument } from '../shared/secret-argument.ts';

const telemetry: Configure = (command, cli) => {
  operations([
    { name: 'info', operation: 'getTelemetry', one: 'telemetry', example: 'telemetry info' },
    { name: 'test', operation: 'testTelemetry', example: 'telemetry test' },
    {
      name: 'delete',
      operation: 'deleteTelemetry',
      confirm: 'Send no more spans',
      example: 'telemetry delete --yes',
    },
  ])(command, cli);
  command
    .command('set')
    .description(
      'Send the spans of runs to an OpenTelemetry collector; the value of its header is read from stdin or prompted for',
    )
    .argument('<endpoint>', 'Address of the collector, with or without /v1/traces')
    .argument('[value]', 'Only -, for stdin: other users of the machine can see arguments')
    .option('--header <name>', 'Header with the key of the collector, such as authorization or x-api-key')
    .option('--no-headers', 'Forget the headers: the collector needs none')
    .option('--content', 'Send the stored contents of runs, too')
    .addHelpText(
      'after',
      '\nWithout --header and --no-headers, the headers stay as they are.\n\nExamples:\n  $ platform telemetry set https://otel.example.com --header x-api-key\n  $ platform telemetry set https://otel.example.com --no-headers',
    )
    .action(async (endpoint, given, { header, headers, content = false }) => {
      const value =
        header === undefined
          ? undefined
          : await secretArgument(cli, {
              given,
              label: `Value of ${header}`,
              command: `platform telemetry set ${endpoint} --header ${header}`,
            });
      const params = { workspace_id: await cli.workspaceId() };
      const sent = value === undefined ? (headers ? undefined : {}) : { [header!]: value };
      const body = { endpoint, content, ...(sent && { headers: sent }) };
      const answer = await (await cli.client()).setTelemetry({ params, body });
      cli.output.result(answer, () => `spans are sent to ${endpoint}`);
    });
};
export default telemetry;
