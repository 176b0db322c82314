import { localSandboxSuite } from '#test/conformance/local-sandbox.ts';

await localSandboxSuite('bubblewrap');
