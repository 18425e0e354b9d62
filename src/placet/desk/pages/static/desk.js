// The desk's script: live updates, keys, countdowns. Everything essential also works without it.
'use strict';
(() => {
  const $ = (selector, from) => (from || document).querySelector(selector);
  const all = (selector, from) => [...(from || document).querySelectorAll(selector)];
  const body = document.body;
  const skew = Number(body.dataset.now || 0) - Date.now() / 1000;
  const now = () => Date.now() / 1000 + skew;

  // -- times ----------------------------------------------------------------------------------------------------

  function span(seconds) {
    if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
    return `${Math.floor(seconds / 86400)} days`;
  }

  function age(seconds) {
    if (seconds < 5) return 'just now';
    if (seconds < 60) return `${Math.floor(seconds)} s ago`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
    return `${span(seconds)} ago`;
  }

  function say(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function tick() {
    for (const each of all('time[data-until]')) {
      const left = Number(each.dataset.until) - now();
      say(each, left > 0 ? `${span(left)} left` : 'overdue');
      each.classList.toggle('is-late', left < 60);
    }
    for (const each of all('time[data-since]')) say(each, age(now() - Number(each.dataset.since)));
  }

  // Every time is the reader's own, and names its zone: in the text, in the hint, above a column of clock times.
  const DAY = { day: 'numeric', month: 'short', year: 'numeric' };
  const CLOCK = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' };
  const moment = new Intl.DateTimeFormat(undefined, { ...DAY, ...CLOCK, timeZoneName: 'short' });
  const clock = new Intl.DateTimeFormat(undefined, CLOCK);
  const zone = () => moment.formatToParts(new Date()).find((each) => each.type === 'timeZoneName').value;

  // In the picture of a run, times stand within labels: each is told in UTC, and here in the reader's zone.
  function tellLocally(element) {
    const date = new Date(Number(element.dataset.clockAt) * 1000);
    const local = (text) => text.replace(/\d\d:\d\d:\d\d UTC/, `${clock.format(date)} ${zone()}`);
    const label = element.getAttribute('aria-label');
    if (label) element.setAttribute('aria-label', local(label));
    for (const each of [element, ...element.querySelectorAll('title')]) if (!each.children.length) say(each, local(each.textContent));
  }

  function localTimes(from) {
    for (const each of all('time[data-at]', from)) say(each, moment.format(new Date(each.dateTime)));
    for (const each of all('time[data-clock]', from)) say(each, clock.format(new Date(each.dateTime)));
    for (const each of all('[data-zone]', from)) say(each, zone());
    for (const each of all('[data-clock-at]', from)) tellLocally(each);
    for (const each of all('time[title]', from)) each.title = moment.format(new Date(each.dateTime));
  }

  // -- messages ---------------------------------------------------------------------------------------------------

  function toast(text, look) {
    const made = document.createElement('div');
    made.className = `toast is-${look || 'good'}`;
    made.textContent = text;
    $('#toasts').append(made);
    showNewest();
  }

  // One message of a kind at a time: the newest. They never pile up over what is to be read.
  function showNewest() {
    for (const look of ['good', 'bad']) for (const each of all(`.toast.is-${look}`).slice(0, -1)) each.remove();
    for (const each of all('.toast')) fade(each);
  }

  function fade(element) {
    if (element.dataset.fading) return;
    element.dataset.fading = '1';
    setTimeout(() => (element.matches(':hover, :focus-within') ? (delete element.dataset.fading, fade(element)) : element.remove()), 9000);
  }

  // -- live -------------------------------------------------------------------------------------------------------

  let listDue = false;
  const CHANGES_LISTS = /^(call_held|call_in_doubt|call_ended|decision_made|decision_revoked|question_escalated|run_ended|run_cancelled)$/;
  const timers = {};
  const latest = {};

  // Once soon, and then at most once in a while, however much happens.
  function later(name, wait, pause, action) {
    if (timers[name]) return;
    const due = Math.max(wait, (latest[name] || 0) + pause - Date.now());
    timers[name] = setTimeout(() => { timers[name] = 0; latest[name] = Date.now(); action(); }, due);
  }

  function refreshList() {
    const list = $('#list');
    if (!list) return;
    if (document.hidden) { listDue = true; countUnseen(); return; }
    listDue = false;
    htmx.ajax('GET', withOpen(list.dataset.refresh), { target: '#list', swap: 'outerMorph' });
  }

  // -- attention --------------------------------------------------------------------------------------------------

  // How much waits stands in the title and the icon of the tab. What comes while nobody looks is told outside of the
  // page only to those who chose that; it names no tool and no argument, since others may see the screen.
  let waitingCount = null;
  const isChosen = (name) => localStorage.getItem(`placet-${name}`) === 'on';

  function showCount() {
    const list = $('#list');
    if (!list) return;
    if (!document.hidden || waitingCount === null) waitingCount = Number(list.dataset.waiting);
    const title = document.querySelector('title');
    const bare = title.textContent.replace(/^\(\d+\) /, '');
    say(title, waitingCount ? `(${waitingCount}) ${bare}` : bare);
    const icon = $('link[rel="icon"]');
    icon.href = waitingCount ? icon.dataset.waiting : icon.dataset.quiet;
  }

  async function countUnseen() {
    try {
      const answer = await fetch('/inbox/count.json');
      if (!answer.ok) return;
      const { waiting } = await answer.json();
      const more = waiting - waitingCount;
      waitingCount = waiting;
      showCount();
      if (more > 0) tellOutside(more);
    } catch { /* the desk is away: the next news asks again */ }
  }

  function tellOutside(more) {
    if (isChosen('notify') && window.Notification && Notification.permission === 'granted') {
      const text = more === 1 ? 'A request waits for a decision.' : `${more} requests wait for a decision.`;
      const told = new Notification('Placet', { body: text, tag: 'placet-waiting', icon: $('link[rel="icon"]').href });
      told.onclick = () => { focus(); told.close(); };
    }
    if (isChosen('sound')) beep();
  }

  function beep() {
    const audio = new AudioContext();
    const tone = audio.createOscillator();
    const volume = audio.createGain();
    volume.gain.value = 0.05;
    tone.frequency.value = 660;
    tone.connect(volume).connect(audio.destination);
    tone.start();
    tone.stop(audio.currentTime + 0.15);
    tone.onended = () => audio.close();
  }

  async function choose(box) {
    if (box.id === 'notify-on' && box.checked) {
      const answer = window.Notification ? await Notification.requestPermission() : 'denied';
      if (answer !== 'granted') { box.checked = false; toast('This browser does not allow notifications of this page.', 'bad'); }
    }
    localStorage.setItem(`placet-${box.id.replace('-on', '')}`, box.checked ? 'on' : 'off');
  }

  function withOpen(address) {
    if (!openId()) return address;
    return `${address}${address.includes('?') ? '&' : '?'}open=${encodeURIComponent(openId())}`;
  }

  function refreshStatus() {
    const status = $('#card-status');
    if (!status || (status.hasAttribute('data-closed') && !$('[data-undo]', status))) return;
    htmx.ajax('GET', $('.card[data-request]').dataset.statusUrl, { target: '#card-status', swap: 'outerHTML' });
  }

  function refreshRun() {
    const run = $('[data-run-refresh]');
    if (run) htmx.ajax('GET', run.dataset.runRefresh, { target: '#run-live', swap: 'outerMorph' });
  }

  // What has begun cannot be undone: the button goes with its chance. News may come before the message with the button.
  const begun = [];

  function noteBegun(text) {
    const { run_id: run, call, calls } = JSON.parse(text);
    for (const each of calls || [call]) begun.push(`${run}:${each}`);
    begun.splice(0, begun.length - 200);
    forgetUndo();
  }

  function forgetUndo() {
    for (const form of all('.toast [data-undo]')) if (begun.includes(form.dataset.undo)) form.remove();
  }

  function heard(event) {
    const text = event.data || '';
    if (/^(calls_started|call_ended)$/.test(event.type)) noteBegun(text);
    if ($('#list') && CHANGES_LISTS.test(event.type)) later('list', 150, 1000, refreshList);
    const card = $('.card[data-request]');
    if (card && text.includes(card.dataset.run)) later('status', 100, 300, refreshStatus);
    const run = $('[data-run-refresh]');
    if (run && text.includes(run.dataset.runId)) later('run', 200, 800, refreshRun);
  }

  function live(state, word) {
    const sign = $('#live');
    if (!sign) return;
    sign.dataset.state = state;
    say($('.live-word', sign), word);
    sign.title = state === 'on' ? 'New requests appear by themselves' : 'Reload to see what is new';
  }

  function listen() {
    if (!body.dataset.live || !window.EventSource) return;
    const source = new EventSource(body.dataset.live);
    let wasLost = false;
    source.onopen = () => {
      live('on', 'live');
      if (wasLost) { refreshList(); refreshStatus(); refreshRun(); }
      wasLost = false;
    };
    source.onerror = () => { wasLost = true; live('lost', 'reconnecting'); };
    for (const name of (body.dataset.liveNames || '').split(' ').filter(Boolean)) source.addEventListener(name, heard);
    addEventListener('pagehide', () => source.close());
    addEventListener('pageshow', (event) => { if (event.persisted) location.reload(); });
  }

  // -- pace -------------------------------------------------------------------------------------------------------

  // What has just come into sight takes no decision yet: the second half of a double click, or a held Enter, was meant
  // for what stood there before. A hasty press begins the wait anew. The stylesheet says how long, for everybody.
  const PACE = parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--pace')) || 800; // ms
  const DECIDES = '[data-decide] button[type=submit]:not([name=change])';
  let armed = new WeakSet(); // a button that nobody armed decides nothing, also in the moment before a swap is over
  let armTimer = 0;

  function waitBeforeDeciding() {
    armed = new WeakSet();
    for (const each of all(DECIDES)) { each.dataset.waits = ''; each.setAttribute('aria-disabled', 'true'); }
    clearTimeout(armTimer);
    armTimer = setTimeout(armButtons, PACE);
  }

  function armButtons() {
    for (const each of all(DECIDES)) { armed.add(each); delete each.dataset.waits; each.removeAttribute('aria-disabled'); }
  }

  function mayDecide(button) {
    if ($('#card-status[data-closed]')) return false;
    if (button && armed.has(button)) return true;
    waitBeforeDeciding();
    return false;
  }

  // -- whose answer it is -----------------------------------------------------------------------------------------

  // A card may change while an answer is on its way. What was asked for another request is dropped, and so is what
  // was overtaken by a later question for the same place; the list and the message that came with it are kept.
  const openId = () => { const card = $('.card[data-request], .card[data-deck]'); return card ? card.dataset.request || card.dataset.deck : ''; };
  const asked = {};

  function noteQuestion(ctx) {
    const place = placeOf(ctx.target);
    if (!place) return; // a value that unfolds goes with its card
    asked[place] = (asked[place] || 0) + 1;
    ctx.placet = { place, turn: asked[place], openId: openId() };
  }

  function placeOf(target) {
    const element = typeof target === 'string' ? $(target) : target;
    return element && element.id ? `#${element.id}` : '';
  }

  function isForAnother(ctx) {
    const { place, turn, openId: then } = ctx.placet || {};
    if (!place) return false;
    const about = ctx.response && ctx.response.headers.get('Placet-Request');
    if (/^#(card-status|panel)$/.test(place) && about && about !== openId()) return true;
    if (place.startsWith('#card') || place === '#panel') return then !== openId() && !isOpening(ctx);
    return turn !== asked[place];
  }

  // A click on a row asks for another card than the one that is open: the last such click counts.
  function isOpening(ctx) {
    return ctx.sourceElement.matches('.row-link') && ctx.placet.turn === asked['#card'];
  }

  // -- what is open -----------------------------------------------------------------------------------------------

  function isDirty() {
    return all('[data-panel] textarea, [data-panel] select, [data-panel] input').some(isChanged);
  }

  function isChanged(field) {
    if (field.type === 'checkbox' || field.type === 'radio') return field.checked !== field.defaultChecked;
    if (field.options) return [...field.options].some((each) => each.selected !== each.defaultSelected);
    return field.value !== field.defaultValue;
  }

  let opening = ''; // the request that was chosen and is on its way: the next `j` or `k` goes on from there

  // The first one is open, so that what waits is read without a further step. On a phone the list is seen first.
  function openFirst() {
    const first = $('.row .row-link');
    if (!first || !$('main.inbox .welcome') || opening || matchMedia('(max-width: 820px)').matches) return;
    htmx.ajax('GET', first.getAttribute('hx-get'), { target: '#card', swap: 'innerHTML' });
  }

  function markOpen() {
    const id = opening || openId();
    for (const row of all('.row')) {
      const isOpen = row.dataset.id === id;
      row.toggleAttribute('data-open', isOpen);
      const link = $('.row-link', row);
      if (isOpen) link.setAttribute('aria-current', 'true'); else link.removeAttribute('aria-current');
    }
    const inbox = $('main.inbox');
    if (inbox) inbox.classList.toggle('has-card', Boolean($('.card:not([data-auto])')));
    closeIfOver();
  }

  function closeIfOver() {
    const isOver = Boolean($('#card-status[data-closed]'));
    const act = $('#act');
    if (!act || !isOver) return;
    act.classList.add('is-over');
    for (const each of all('button[type=submit]', act)) each.disabled = true;
    for (const each of all('.actions a', act)) { each.setAttribute('aria-disabled', 'true'); each.tabIndex = -1; }
  }

  function rows() { return all('.row'); }

  function openNeighbour(step) {
    const found = rows();
    if (!found.length) return;
    const at = found.findIndex((row) => row.hasAttribute('data-open'));
    const next = found[at < 0 ? (step > 0 ? 0 : found.length - 1) : at + step];
    if (!next) { toast(step > 0 ? 'This is the last one on this page.' : 'This is the first one on this page.'); return; }
    next.scrollIntoView({ block: 'nearest' });
    $('.row-link', next).click();
  }

  // -- selecting --------------------------------------------------------------------------------------------------

  function picks() { return all('#picks input[name=pick]'); }

  function showPicked() {
    const bulk = $('#bulk');
    if (!bulk) return;
    const picked = picks().filter((each) => each.checked);
    bulk.dataset.picked = picked.length;
    say($('[data-picked-count]', bulk), picked.length ? `${picked.length} selected` : 'Select');
    say($('[data-picked-word]', bulk), picked.length ? '' : 'several');
    $('[data-pick-alike]', bulk).hidden = !picked.length;
    $('[data-pick-none]', bulk).hidden = !picked.length;
  }

  function pickAlike(like) {
    for (const each of picks()) if (each.closest('.row').dataset.like === like) each.checked = true;
    showPicked();
  }

  // -- keys -------------------------------------------------------------------------------------------------------

  const KEYS = 'placet-single-keys';
  const keysAreOn = () => localStorage.getItem(KEYS) !== 'off';
  let gone = 0; // when «g» was pressed

  function isTyping(target) {
    return target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName) ||
      (target.tagName === 'INPUT' && !/^(checkbox|radio|submit|button)$/.test(target.type));
  }

  function press(key) {
    const found = all(`[data-key="${key}"]`).filter((each) => each.offsetParent !== null && !each.disabled && (each.hasAttribute('data-waits') || each.getAttribute('aria-disabled') !== 'true'));
    const target = found[found.length - 1];
    if (!target) return false;
    const unseen = key === 'a' && target.form && [...target.form.elements].find((each) => each.name === 'seen' && !each.checked);
    if (unseen) { focusWithoutScrolling(unseen); return true; }
    if (target.hasAttribute('data-focus-only')) focusWithoutScrolling(target); else target.click();
    return true;
  }

  // Focus must not push what is decided about out of sight: the buttons stick to the edge and are seen anyway.
  function focusWithoutScrolling(target) {
    target.focus({ preventScroll: true });
    const { top, bottom } = target.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) target.scrollIntoView({ block: 'nearest' });
  }

  function escape() {
    const panel = $('#panel [data-panel]');
    if (panel) {
      if (isTyping(document.activeElement) && isDirty()) { document.activeElement.blur(); toast('What you have typed is still here. Esc again closes it.'); return; }
      closePanel();
      return;
    }
    const back = $('[data-back]');
    if (back && matchMedia('(max-width: 820px)').matches) { back.click(); return; }
    const open = $('.row[data-open] .row-link') || $('.row-link');
    if (open) open.focus();
  }

  function closePanel() {
    const panel = $('#panel');
    if (!panel) return;
    panel.replaceChildren();
    waitBeforeDeciding();
    const title = $('#card-title');
    if (title) title.focus({ preventScroll: true });
  }

  function onKey(event) {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      const form = event.target.closest && event.target.closest('[data-panel]');
      const button = form && $('button.primary[type=submit]', form);
      if (button && !button.disabled) { event.preventDefault(); form.requestSubmit(button); }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || $('dialog[open]')) return;
    if (event.key === 'Escape') { escape(); return; }
    if (isTyping(event.target) || !keysAreOn()) return;
    if (act(event.key)) event.preventDefault();
  }

  function act(key) {
    if (gone && Date.now() - gone < 1500) {
      gone = 0;
      const link = $(`nav [data-go="${key}"]`);
      if (link) { link.click(); return true; }
    }
    const row = $('.row[data-open]') || (document.activeElement.closest && document.activeElement.closest('.row'));
    switch (key) {
      case 'g': gone = Date.now(); return true;
      case '?': $('#help').showModal(); return true;
      case '/': { const first = $('#filters input[type=search]') || $('#filters select, .toolbar select, .toolbar input'); if (first) first.focus(); return Boolean(first); }
      case 'j': openNeighbour(1); return true;
      case 'k': openNeighbour(-1); return true;
      case 'x': { const box = row && $('input[name=pick]', row); if (box) { box.checked = !box.checked; showPicked(); } return Boolean(box); }
      case 'X': if (row) pickAlike(row.dataset.like); return Boolean(row);
      default: return /^[arewmtuvo]$/.test(key) ? press(key) : false;
    }
  }

  // -- wiring -----------------------------------------------------------------------------------------------------

  document.addEventListener('keydown', onKey);

  document.addEventListener('submit', (event) => {
    if (!event.target.matches('[data-decide]')) return;
    if (event.submitter && event.submitter.name === 'change') return; // one more field, or one less, decides nothing
    if (!mayDecide(event.submitter)) { event.preventDefault(); event.stopImmediatePropagation(); }
  }, true);

  document.addEventListener('click', (event) => {
    const target = event.target.closest('[data-help], [data-dismiss], [data-copy], [data-close-panel], [data-pick-alike], [data-pick-none], [data-back]');
    if (!target) return;
    if (target.matches('[data-help]')) $('#help').showModal();
    else if (target.matches('[data-dismiss]')) target.closest('.toast').remove();
    else if (target.matches('[data-copy]')) copy(target.dataset.copy);
    else if (target.matches('[data-close-panel]')) { event.preventDefault(); closePanel(); }
    else if (target.matches('[data-pick-none]')) { for (const each of picks()) each.checked = false; showPicked(); }
    else if (target.matches('[data-pick-alike]')) {
      const first = picks().find((each) => each.checked);
      if (first) pickAlike(first.closest('.row').dataset.like);
    }
  });

  // The page may show a part: what is copied is all of it, as the desk has it, or nothing.
  async function copy(address) {
    const about = openId();
    let text;
    try {
      const answer = await fetch(address, { headers: { Accept: 'text/plain' } });
      if (!answer.ok || answer.headers.get('Placet-Request') !== about) throw new Error('another answer');
      text = await answer.text();
    } catch { toast('Not copied: the desk did not give the arguments.', 'bad'); return; }
    try { await navigator.clipboard.writeText(text); toast(`Copied: all arguments, ${text.length.toLocaleString('en')} characters.`); } catch { toast('Not copied: the browser does not allow it here.', 'bad'); }
  }

  // Whoever writes a value means it: «give a value» is on then, and «nothing» is off.
  document.addEventListener('input', (event) => {
    if (!event.target.matches('.form-fields [name^="v."], .form-fields [name^="j."]')) return;
    for (let place = event.target.closest('.field'); place; place = place.parentElement.closest('fieldset.group')) {
      for (const each of all(':scope > .switch input', place)) each.checked = each.name.startsWith('has.');
    }
  });

  // The address says what was chosen, and nothing else.
  document.addEventListener('formdata', (event) => {
    if (event.target.id === 'filters') for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });

  document.addEventListener('change', (event) => {
    if (event.target.matches('[data-submit]')) event.target.form.requestSubmit();
    if (event.target.matches('#picks input[name=pick]')) showPicked();
    if (event.target.matches('#notify-on, #sound-on')) choose(event.target);
    if (event.target.id === 'keys-on') localStorage.setItem(KEYS, event.target.checked ? 'on' : 'off');
  });

  // What an offer would make is read first: its button has just come into sight, and Enter presses it.
  document.addEventListener('toggle', (event) => {
    if (!event.target.matches('.offer') || !event.target.open) return;
    waitBeforeDeciding();
    focusWithoutScrolling($('button[type=submit]', event.target));
  }, true);

  function tellBar(bar) {
    const place = $('#timeline-detail');
    if (bar && place) say(place, bar.getAttribute('aria-label'));
  }

  for (const kind of ['pointerover', 'focusin']) {
    document.addEventListener(kind, (event) => {
      if (event.target.closest && event.target.closest('.timeline a')) tellBar(event.target.closest('.timeline a'));
    });
  }

  document.addEventListener('htmx:config:request', (event) => {
    const source = event.detail.ctx.sourceElement;
    if (source.matches && source.matches('.row-link, #picks, [data-undo]') && isDirty() && !confirm('Discard what you have typed?')) { event.preventDefault(); return; }
    noteQuestion(event.detail.ctx);
    if (!source.matches || !source.matches('.row-link')) return;
    opening = source.closest('.row').dataset.id;
    markOpen();
  });

  document.addEventListener('htmx:finally:request', (event) => {
    const ctx = event.detail.ctx;
    if (!ctx.placet || ctx.placet.place !== '#card' || ctx.placet.turn !== asked['#card']) return;
    opening = '';
    markOpen();
  });

  document.addEventListener('htmx:before:response', (event) => {
    if (event.detail.ctx.response.status === 401) { event.preventDefault(); location.reload(); }
  });

  // An answer that is lost says nothing about the question: a decision may have arrived. The desk is asked what is so.
  document.addEventListener('htmx:error', (event) => {
    const ctx = event.detail.ctx;
    const wasSent = ctx && ctx.request && ctx.request.method === 'POST';
    if (!wasSent) { toast('The desk cannot be reached. Try again.', 'bad'); return; }
    toast('No answer came. Your decision may have arrived: the page asks the desk, and shows it here once it knows.', 'bad');
    later('status', 1000, 1000, refreshStatus);
    later('list', 1000, 1000, refreshList);
  });

  document.addEventListener('htmx:after:request', (event) => {
    const ctx = event.detail.ctx;
    ctx.isForAnother = isForAnother(ctx);
    if (!ctx.isForAnother) return;
    if (ctx.hx) delete ctx.hx.pushurl;
    if (placeOf(ctx.target) === '#list') later('list', 150, 1000, refreshList);
    if (ctx.response.status >= 400 && ctx.sourceElement.matches('[data-decide]')) {
      toast('Your decision about the request before was not taken. Open it again to see why.', 'bad');
    }
  });

  let scrolledTo = null;

  document.addEventListener('htmx:before:swap', (event) => {
    const { ctx, tasks } = event.detail;
    if (ctx.isForAnother) for (const task of tasks.filter((each) => each.type === 'main')) tasks.splice(tasks.indexOf(task), 1);
    if (tasks.some((each) => each.type === 'partial' && placeOf(each.target) === '#list')) asked['#list'] = (asked['#list'] || 0) + 1;
    const pane = $('.card-pane');
    scrolledTo = pane && { pane: pane.scrollTop, page: scrollY };
  });

  document.addEventListener('htmx:after:swap', (event) => {
    const ctx = event.detail.ctx;
    const target = ctx && (typeof ctx.target === 'string' ? $(ctx.target) : ctx.target);
    const isCard = target && target.id === 'card' && !ctx.isForAnother;
    localTimes();
    tick();
    markOpen();
    showPicked();
    showNewest();
    forgetUndo();
    showCount();
    if (target && target.id === 'list') openFirst();
    tellBar($('.timeline a:hover') || $('.timeline a:focus')); // what it tells may have changed
    if (target && target.id === 'panel' && scrolledTo) { // its first field takes the focus: the arguments stay in sight
      $('.card-pane').scrollTop = scrolledTo.pane;
      scrollTo(0, scrolledTo.page);
    }
    const isSentBack = target && target.id === 'panel' && ctx.placet && ctx.placet.place === '#card';
    if (isSentBack) armButtons(); // the same form about the same request, with what is wrong in it
    else if (isCard || (target && target.id === 'panel')) waitBeforeDeciding();
    if (!isCard) return;
    const source = ctx.sourceElement;
    if (source && source.matches('[data-undo]') && source.closest('.toast')) source.closest('.toast').remove();
    const pane = $('.card-pane');
    pane.scrollTop = 0;
    const title = $('#card-title');
    const isAuto = ctx.placet && !ctx.placet.openId && !ctx.sourceElement.matches('.row-link, form'); // it opened by itself
    if (title && !isAuto && !(document.activeElement && document.activeElement.matches('#card [autofocus]'))) title.focus({ preventScroll: true });
    if (matchMedia('(max-width: 820px)').matches) scrollTo(0, 0);
    say(document.querySelector('title'), `${title ? title.textContent.trim() + ' · ' : ''}Inbox · Placet`);
    showCount();
  });

  document.addEventListener('visibilitychange', () => { if (!document.hidden && listDue) refreshList(); });

  addEventListener('beforeunload', (event) => { if (isDirty() && $('#panel [data-panel]') && !$('#card-status[data-closed]') && !body.dataset.leaving) event.preventDefault(); });
  document.addEventListener('submit', () => { body.dataset.leaving = '1'; setTimeout(() => delete body.dataset.leaving, 3000); });

  const keysBox = $('#keys-on');
  if (keysBox) keysBox.checked = keysAreOn();
  for (const name of ['notify', 'sound']) if ($(`#${name}-on`)) $(`#${name}-on`).checked = isChosen(name);
  showCount();
  localTimes();
  tick();
  markOpen();
  showPicked();
  waitBeforeDeciding();
  showNewest();
  setInterval(tick, 1000);
  listen();
})();
