// Node 24 removes the types, so there is no build step. Use only syntax that can be removed: no `enum`, no `namespace`.
import { json } from 'node:stream/consumers';

interface Input {
  readonly name: string;
}

function greet({ name }: Input): { greeting: string } {
  return { greeting: `Hello, ${name}!` };
}

const input = (await json(process.stdin)) as Input;
console.error('greets one person'); // stderr is the log of the run
console.log(JSON.stringify(greet(input)));
