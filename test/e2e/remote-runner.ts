import { type RunnerTask, TestRunner } from 'vitest';
import { NOT_HERE } from './remote-target.ts';

/** Runs tests, and counts as skipped, with the reason, what needs something that a platform elsewhere does not offer. */
export default class RemoteRunner extends TestRunner {
  onTaskFinished(test: RunnerTask): void {
    skipWhatIsNotHere(test);
  }

  override async onAfterRunSuite(suite: Parameters<TestRunner['onAfterRunSuite']>[0]): Promise<void> {
    await super.onAfterRunSuite(suite);
    // Its `beforeAll` needed it, so none of its tests ran. Not a whole file: then nothing would have been tested.
    if (!('filepath' in suite)) skipWhatIsNotHere(suite);
  }
}

function skipWhatIsNotHere(task: RunnerTask): void {
  const error = task.result?.errors?.find(({ message }) => message.startsWith(NOT_HERE));
  if (error === undefined) return;
  task.mode = 'skip';
  Object.assign(task.result!, { state: 'skip', errors: undefined, note: error.message });
}
