// Calls a dependency of the running agent: node platform_call.js org/agent@v1
//
// The input is the JSON object in /tmp/__tool_input.json, or in the file that PLATFORM_TOOL_INPUT names. Prints the
// dependency's data as JSON; after a failure {"error": text}, and ends with status 1.

// A tool of a loop has 120 s: the call must fail earlier, so that the model gets the reason.
const TIMEOUT_MS = 115_000;

async function main([ref, ...rest]) {
  if (ref === undefined || rest.length > 0) throw new Error('usage: platform_call.js org/agent@v1');
  // With import(), the file runs both as a module and as a script: no package.json beside it says which one it is.
  const { readFile } = await import('node:fs/promises');
  const { AgentClient } = await import('agent-platform-sdk');
  const input = JSON.parse(await readFile(process.env.PLATFORM_TOOL_INPUT || '/tmp/__tool_input.json', 'utf8'));
  return new AgentClient().call(ref, input, { timeout: TIMEOUT_MS });
}

main(process.argv.slice(2)).then(
  (data) => console.log(JSON.stringify(data)),
  (error) => {
    console.log(JSON.stringify({ error: error.code ? `${error.code}: ${error.message}` : error.message }));
    process.exitCode = 1;
  },
);
