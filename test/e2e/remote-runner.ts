import { type RunnerTask, TestRunner } from 'vitest';
import { NOT_HERE } from './remote-target.ts';

/** Test runner that skips tests of operations that the remote platform does not offer, with the reason. */
export default class RemoteRunner extends TestRunner {
  onTaskFinished(test: RunnerTask): void {
    skipWhatIsNotHere(test);
  }

  override async onAfterRunSuite(suite: Parameters<TestRunner['onAfterRunSuite']>[0]): Promise<void> {
    await super.onAfterRunSuite(suite);
    // A failed `beforeAll` skips its suite, but never a whole file, which would then test nothing.
    if (!('filepath' in suite)) skipWhatIsNotHere(suite);
  }
}

function skipWhatIsNotHere(task: RunnerTask): void {
  const error = task.result?.errors?.find(({ message }) => message.startsWith(NOT_HERE));
  if (error === undefined) return;
  task.mode = 'skip';
  Object.assign(task.result!, { state: 'skip', errors: undefined, note: error.message });
}
