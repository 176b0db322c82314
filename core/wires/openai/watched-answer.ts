import { type WatchDeps, type Watched, type WatchOptions, WatchStream } from '#core/events/watch.ts';

/** A comment: the client of Python takes anything else for an event. */
const BEGIN = ': begin\n\n';

/** Answers with a stream of records that are found by looking again and again. */
export function watchedAnswer(
  deps: WatchDeps,
  watched: Watched<string>,
  options: Pick<WatchOptions<string>, 'requestUuid' | 'check' | 'onEnd'>,
) {
  return {
    status: 200 as const,
    raw: {
      contentType: 'text/event-stream',
      content: new WatchStream(deps, watched, { ...options, begin: BEGIN, recordOf: (record) => record }),
    },
    headers: { 'cache-control': 'no-cache' },
  };
}
