import { Readable, Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { UsageError } from '#client/usage-error.ts';
import { escapeControls } from '#core/base/control-characters.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { members } from '../shared/output.ts';

const mcp: Configure = (command, cli) => {
  command
    .option('--http', 'Serve over HTTP on this machine instead of stdio')
    .option('--port <number>', 'Port for --http (0: any free port)', '4282')
    .addHelpText(
      'after',
      `
Coding agents start this command and speak the Model Context Protocol over stdin and stdout; \`platform agent-setup\` writes
their configuration. The tools act as you, in the current workspace. With --http, clients must send the token that the
command prints; set PLATFORM_MCP_TOKEN to use a fixed token.

Examples:
  $ platform mcp
  $ platform mcp --http --port 0`,
    )
    .action(async ({ http = false, port }) => (http ? serveHttp(cli, port) : serveStdin(cli)));
};

async function serveStdin(cli: Cli): Promise<void> {
  const { serveStdio, StdioServerTransport } = await import('@modelcontextprotocol/server/stdio');
  const { mcpServer } = await import('../mcp/server.ts');
  const input = Readable.from(cli.host.stdin);
  const output = new Writable({
    write(chunk: Buffer, _, done) {
      cli.host.stdout.write(escapeControls(chunk.toString()));
      done();
    },
  });
  const handle = serveStdio(() => mcpServer(cli), {
    transport: new StdioServerTransport(input, output),
    onerror: (error) => cli.output.warn(error.message),
  });
  await finished(input, { writable: false });
  await handle.close();
}

async function serveHttp(cli: Cli, port: string): Promise<void> {
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535)
    throw new UsageError(`Invalid --port "${port}": must be a number from 0 to 65535.`);
  const { serveMcpHttp } = await import('../mcp/http.ts');
  const { promise: interrupted, resolve } = Promise.withResolvers<void>();
  const stop = cli.host.onInterrupt(resolve);
  const server = await serveMcpHttp(cli, Number(port), cli.host.env.PLATFORM_MCP_TOKEN);
  cli.output.result({ url: server.url, token: server.token }, members);
  await interrupted;
  stop();
  await server.close();
}

export default mcp;
