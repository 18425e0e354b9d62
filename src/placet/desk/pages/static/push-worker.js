// Shows what the desk tells this browser. A click opens the desk; nothing is decided here.
"use strict"

self.addEventListener("push", (event) => {
  let told = {}
  try {
    told = event.data ? event.data.json() : {}
  } catch {
    told = {}
  }
  const shown = {
    body: String(told.body || ""),
    tag: String(told.tag || "placet"),
    silent: told.silent === true,
    icon: "/static/icon.svg",
    data: { url: String(told.url || "") },
  }
  event.waitUntil(self.registration.showNotification(String(told.title || "Placet"), shown))
})

self.addEventListener("notificationclick", (event) => {
  event.notification.close()
  event.waitUntil(self.clients.openWindow(pageOf(event.notification.data)))
})

// Only pages of this desk, whatever a message says.
function pageOf(data) {
  try {
    const found = new URL(data.url, self.location.origin)
    return found.origin === self.location.origin ? found.href : "/inbox"
  } catch {
    return "/inbox"
  }
}
